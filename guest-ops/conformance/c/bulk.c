/* Large files, deep trees, many files. */
#include "conform.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK (64 * 1024)

/* Bytes that no compressor makes smaller: a linear congruential generator's words. */
static void fill(unsigned char *block, uint64_t *state) {
    for (size_t at = 0; at < BLOCK; at += 8) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        memcpy(block + at, state, 8);
    }
}

void large(long mib) {
    static unsigned char block[BLOCK], middle[BLOCK];
    long blocks = mib * (1024 * 1024 / BLOCK);
    uint64_t state = 1, sum = SUM_START;
    FILE *file = fopen("large", "wb");
    for (long i = 0; file && i < blocks; i++) {
        fill(block, &state);
        if (fwrite(block, 1, BLOCK, file) != BLOCK)
            give_up("write");
        if (i == blocks / 2)
            memcpy(middle, block, BLOCK);
    }
    struct stat status;
    if (!file || fclose(file) != 0 || stat("large", &status) < 0)
        give_up("large");
    say("size", "%lld", (long long)status.st_size);
    file = fopen("large", "rb");
    while (file && fread(block, 1, BLOCK, file) == BLOCK)
        sum = sum_on(sum, block, BLOCK);
    say("sum", "%016" PRIx64, sum);
    if (!file || fseeko(file, (off_t)(blocks / 2) * BLOCK, SEEK_SET) < 0 || fread(block, 1, BLOCK, file) != BLOCK)
        give_up("large");
    say("the middle is what was written", "%s", yes(memcmp(block, middle, BLOCK) == 0));
    fclose(file);
}

/* Makes `levels` directories, one in the other, below `top`, and leaves the path of the last in `path`. */
static void make_levels(char *path, const char *top, int levels) {
    strcpy(path, top);
    for (int level = 0; level <= levels; level++) {
        if (level > 0)
            strcat(path, "/n");
        if (mkdir(path, 0755) < 0)
            give_up(path);
    }
}

static int has_directory(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

void deep(int levels) {
    char *path = malloc((size_t)levels * 2 + 16);
    if (!path)
        give_up("memory");
    make_levels(path, "deep", levels);
    strcat(path, "/leaf");
    spill_text(path, "leaf\n");
    say_content("the bottom", path);
    int found = 0;
    strcpy(path, "deep");
    while (has_directory(strcat(path, "/n")))
        found++;
    say("levels", "%d", found);
    say("up and down again", "%s", yes(has_directory("deep/n/../../deep/n")));
    make_levels(path, "gone", levels);
    int removed = 0;
    for (int level = levels; level >= 0 && removed == 0; level--) {
        removed = rmdir(path);
        path[strlen(path) - (level > 0 ? 2 : 0)] = 0;
    }
    tell("remove all", removed);
    say("gone", "%s", yes(access("gone", F_OK) < 0));
    free(path);
}

void many(long count) {
    char path[64], text[64];
    if (mkdir("many", 0755) < 0)
        give_up("many");
    for (long number = 0; number < count; number++) {
        snprintf(path, sizeof path, "many/%06ld", number);
        int length = snprintf(text, sizeof text, "file %ld\n", number);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
        if (fd < 0 || write(fd, text, (size_t)length) != length || close(fd) < 0)
            give_up(path);
    }
    char **names;
    long listed = list_names("many", &names);
    uint64_t names_sum = SUM_START, sum = SUM_START;
    for (long i = 0; i < listed; i++) {
        names_sum = sum_on(names_sum, names[i], strlen(names[i]));
        snprintf(path, sizeof path, "many/%s", names[i]);
        int fd = open(path, O_RDONLY);
        ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text);
        if (length < 0 || close(fd) < 0)
            give_up(path);
        sum = sum_on(sum, text, (size_t)length);
        free(names[i]);
    }
    free(names);
    say("listed", "%ld, sum %016" PRIx64, listed, names_sum);
    say("read", "sum %016" PRIx64, sum);
    for (long number = 0; number < count; number++) {
        snprintf(path, sizeof path, "many/%06ld", number);
        if (number % 1000 != 0 && unlink(path) < 0)
            give_up(path);
    }
    say("left", "%ld", list_names("many", &names));
}
