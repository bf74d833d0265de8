/* What all tools of the benchmark share: whole files, growing text, errors that end the program. */
#ifndef TOOLKIT_H
#define TOOLKIT_H

#include <ctype.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text {
    char *bytes;
    size_t length;
    size_t room;
};

static inline void die(const char *what, const char *name) {
    fprintf(stderr, "%s: %s\n", name, what);
    exit(1);
}

static inline void *grow(void *block, size_t bytes) {
    void *grown = realloc(block, bytes ? bytes : 1);
    if (!grown)
        die("no memory", "tool");
    return grown;
}

static inline FILE *must_open(const char *name, const char *how) {
    FILE *file = fopen(name, how);
    if (!file)
        die("cannot be opened", name);
    return file;
}

static inline void must_close(FILE *file, const char *name) {
    if (fclose(file) != 0)
        die("cannot be written", name);
}

/* A whole file with a zero byte behind it. */
static inline struct text read_all(const char *name) {
    struct text all = {0};
    FILE *file = must_open(name, "rb");
    for (;;) {
        if (all.room - all.length < 65536) {
            all.room = all.room * 2 + 131072;
            all.bytes = grow(all.bytes, all.room + 1);
        }
        size_t got = fread(all.bytes + all.length, 1, all.room - all.length, file);
        if (got == 0)
            break;
        all.length += got;
    }
    fclose(file);
    all.bytes[all.length] = 0;
    return all;
}

/* The next line of a text, ended by a zero byte instead of its line feed; NULL at the end. */
static inline char *next_line(char **at) {
    char *line = *at;
    if (*line == 0)
        return NULL;
    char *end = strchr(line, '\n');
    if (end)
        *end = 0;
    *at = end ? end + 1 : line + strlen(line);
    return line;
}

#endif
