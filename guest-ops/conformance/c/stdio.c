/* What the C library's own buffering and directory streams make of preview 1. */
#include "conform.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void modes(void) {
    FILE *file = fopen("lines", "w");
    if (!file)
        give_up("lines");
    for (int i = 0; i < 3; i++)
        fprintf(file, "%d %s %5.2f\n", i, "word", i / 3.0);
    fclose(file);
    say_content("printed", "lines");
    file = fopen("lines", "r+");
    char line[64];
    if (!file || !fgets(line, sizeof line, file))
        give_up("lines");
    say("first line", "%zu bytes", strlen(line));
    say("told", "%ld", ftell(file));
    fseek(file, 2, SEEK_SET);
    fputs("WORD", file);
    fflush(file);
    say_content("patched", "lines");
    rewind(file);
    int number;
    char word[16];
    float value;
    while (fscanf(file, "%d %15s %f", &number, word, &value) == 3)
        say("scanned", "%d %s %.2f", number, word, (double)value);
    say("at the end", "%s", yes(feof(file)));
    fclose(file);
    file = fopen("lines", "a+");
    if (!file)
        give_up("lines");
    fputs("appended\n", file);
    fseek(file, 0, SEEK_SET);
    say("read from the start", "%c", fgetc(file));
    ungetc('!', file);
    say("pushed back", "%c", fgetc(file));
    fclose(file);
    tell("exclusively", fopen("lines", "wx") ? 0 : -1);
    tell("nothing to read", fopen("no", "r") ? 0 : -1);
    tell("remove", remove("lines"));
}

static void unbuffered(void) {
    FILE *file = fopen("plain", "w");
    if (!file || setvbuf(file, NULL, _IONBF, 0) != 0)
        give_up("plain");
    fputs("at once", file);
    say_content("before closing", "plain");
    fclose(file);
}

static void directory_stream(void) {
    if (mkdir("stream", 0755) < 0)
        give_up("stream");
    for (char name[] = "stream/a"; name[7] <= 'e'; name[7]++)
        spill_text(name, "");
    DIR *directory = opendir("stream");
    if (!directory)
        give_up("stream");
    struct dirent *entry;
    int count = 0, dots = 0, typed = 0;
    while ((entry = readdir(directory))) {
        count++;
        dots += entry->d_name[0] == '.';
        typed += entry->d_type == DT_REG;
    }
    say("entries", "%d, of them %d dots and %d files", count, dots, typed);
    rewinddir(directory);
    for (count = 0; readdir(directory);)
        count++;
    say("after rewinding", "%d", count);
    closedir(directory);
    struct dirent **found;
    count = scandir("stream", &found, NULL, alphasort);
    printf("scanned:");
    for (int i = 0; i < count; i++) {
        if (found[i]->d_name[0] != '.')
            printf(" %s", found[i]->d_name);
        free(found[i]);
    }
    putchar('\n');
    free(found);
}

static void relative_to_directories(void) {
    int directory = open("stream", O_RDONLY | O_DIRECTORY);
    struct stat status;
    int fd = openat(directory, "below", O_WRONLY | O_CREAT, 0644);
    if (directory < 0 || fd < 0 || write(fd, "12345", 5) != 5 || close(fd) < 0)
        give_up("stream/below");
    tell("stat below it", fstatat(directory, "below", &status, 0));
    say_kind("that is", &status);
    struct timespec times[2] = {{.tv_sec = 1, .tv_nsec = 2}, {.tv_sec = 1500000000, .tv_nsec = 123456789}};
    tell("set its times", utimensat(directory, "below", times, 0));
    fstatat(directory, "below", &status, 0);
    say("its time", "%lld.%09ld", (long long)status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
    tell("rename to above it", renameat(directory, "below", AT_FDCWD, "above"));
    say_content("what moved", "above");
    tell("rename below a closed one", renameat(1000, "x", AT_FDCWD, "y"));
    close(directory);
    tell("truncate by name", truncate("above", 2));
    say_content("what is left", "above");
    tell("may be read", access("above", R_OK));
}

void standard_io(void) {
    modes();
    unbuffered();
    directory_stream();
    relative_to_directories();
}
