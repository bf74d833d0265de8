/* weblog LOG REPORT: from lines 'second visitor page status bytes' the visits of each visitor, in order, with sums. */
#include "toolkit.h"

struct hit {
    char *visitor, *page;
    unsigned long second, bytes;
    int status;
};

static struct hit *hits;
static size_t count, room;

static int compare(const void *a, const void *b) {
    const struct hit *x = a, *y = b;
    int order = strcmp(x->visitor, y->visitor);
    return order ? order : (x->second < y->second ? -1 : x->second > y->second);
}

static void read_hits(const char *name) {
    char *at = read_all(name).bytes, *line, *rest;
    for (unsigned long number = 1; (line = next_line(&at)); number++) {
        char *fields[5];
        for (int i = 0; i < 5; i++)
            if (!(fields[i] = strtok_r(i ? NULL : line, " ", &rest)))
                die("a line lacks a field", name);
        if (count == room)
            hits = grow(hits, (room = room * 2 + 1024) * sizeof *hits);
        hits[count++] = (struct hit){fields[1], fields[2], strtoul(fields[0], NULL, 10), strtoul(fields[4], NULL, 10),
                                     atoi(fields[3])};
    }
}

/* One visitor's hits; gives the index behind them. */
static size_t visitor(FILE *out, size_t from) {
    unsigned long bytes = 0, failed = 0;
    size_t i = from;
    fprintf(out, "Visitor %s\n", hits[from].visitor);
    for (; i < count && strcmp(hits[i].visitor, hits[from].visitor) == 0; i++) {
        unsigned long day = hits[i].second / 86400, second = hits[i].second % 86400;
        bytes += hits[i].bytes;
        failed += hits[i].status >= 400;
        fprintf(out, "  day %lu %02lu:%02lu:%02lu %-40s %9lu bytes%s\n", day, second / 3600, second / 60 % 60, second % 60,
                hits[i].page, hits[i].bytes, hits[i].status >= 400 ? " failed" : "");
    }
    fprintf(out, "  %zu pages, %lu failed, %lu bytes, %lu seconds\n\n", i - from, failed, bytes,
            hits[i - 1].second - hits[from].second);
    return i;
}

int main(int argument_count, char **arguments) {
    if (argument_count != 3)
        die("usage: weblog LOG REPORT", "weblog");
    read_hits(arguments[1]);
    qsort(hits, count, sizeof *hits, compare);
    FILE *out = must_open(arguments[2], "wb");
    for (size_t i = 0; i < count;)
        i = visitor(out, i);
    must_close(out, arguments[2]);
    return 0;
}
