/* Arguments, environment, standard streams and exit codes. */
#include "conform.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

void arguments(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        printf("argument %d: %zu bytes, %s\n", i, strlen(argv[i]), argv[i]);
    size_t count = 0;
    while (environ[count])
        count++;
    qsort(environ, count, sizeof *environ, compare_names);
    for (size_t i = 0; i < count; i++)
        printf("variable %s\n", environ[i]);
}

void standard_input(void) {
    static unsigned char buffer[10007];
    uint64_t sum = SUM_START;
    size_t length = 0;
    ssize_t count;
    while ((count = read(0, buffer, sizeof buffer)) > 0) {
        sum = sum_on(sum, buffer, (size_t)count);
        length += (size_t)count;
    }
    if (count < 0)
        give_up("standard input");
    say("standard input", "%zu bytes, sum %016" PRIx64, length, sum);
}

void output(long lines) {
    for (long line = 1; line <= lines; line++) {
        printf("line %ld\n", line);
        if (line % 10 == 0)
            fprintf(stderr, "error line %ld\n", line);
    }
}

int leave(int code) {
    say("leaving with", "%d", code);
    return code;
}
