module conform

go 1.27
