/* The text form of what was seen. */
#include "conform.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void say(const char *what, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("%s: ", what);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
}

void tell(const char *what, int result) {
    say(what, "%s", result < 0 ? error_name() : "ok");
}

const char *error_name(void) {
    static const struct {
        int number;
        const char *name;
    } NAMES[] = {
        {EACCES, "EACCES"},   {EBADF, "EBADF"},         {EBUSY, "EBUSY"},         {EEXIST, "EEXIST"},
        {EFAULT, "EFAULT"},   {EFBIG, "EFBIG"},         {EILSEQ, "EILSEQ"},       {EINVAL, "EINVAL"},
        {EIO, "EIO"},         {EISDIR, "EISDIR"},       {ELOOP, "ELOOP"},         {EMFILE, "EMFILE"},
        {EMLINK, "EMLINK"},   {ENAMETOOLONG, "ENAMETOOLONG"}, {ENOENT, "ENOENT"}, {ENOSPC, "ENOSPC"},
        {ENOSYS, "ENOSYS"},   {ENOTDIR, "ENOTDIR"},     {ENOTEMPTY, "ENOTEMPTY"}, {ENOTSOCK, "ENOTSOCK"},
        {ENOTSUP, "ENOTSUP"}, {EOVERFLOW, "EOVERFLOW"}, {EPERM, "EPERM"},         {EROFS, "EROFS"},
        {ESPIPE, "ESPIPE"},   {EXDEV, "EXDEV"},         {ENOTCAPABLE, "ENOTCAPABLE"},
    };
    static char other[16];
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (NAMES[i].number == errno)
            return NAMES[i].name;
    snprintf(other, sizeof other, "E%d", errno);
    return other;
}

const char *yes(int truth) {
    return truth ? "yes" : "no";
}

void give_up(const char *what) {
    fflush(stdout);
    fprintf(stderr, "%s: %s\n", what, error_name());
    exit(1);
}

char *quoted(const void *bytes, size_t length) {
    const unsigned char *from = bytes;
    char *text = malloc(4 * length + 3), *to = text;
    if (!text)
        give_up("memory");
    *to++ = '"';
    for (size_t i = 0; i < length; i++) {
        if (from[i] == '\n')
            to += sprintf(to, "\\n");
        else if (from[i] == 0)
            to += sprintf(to, "\\0");
        else if (from[i] >= ' ' && from[i] <= '~')
            *to++ = (char)from[i];
        else
            to += sprintf(to, "\\x%02x", from[i]);
    }
    strcpy(to, "\"");
    return text;
}

void say_content(const char *what, const char *path) {
    size_t length;
    unsigned char *bytes = slurp(path, &length);
    char *text = quoted(bytes, length);
    say(what, "%s", text);
    free(text);
    free(bytes);
}

void say_kind(const char *what, const struct stat *status) {
    if (S_ISREG(status->st_mode))
        say(what, "file of %lld bytes", (long long)status->st_size);
    else if (S_ISLNK(status->st_mode))
        say(what, "symbolic link of %lld bytes", (long long)status->st_size);
    else
        say(what, "%s", S_ISDIR(status->st_mode) ? "directory" : "other");
}

void say_listing(const char *what, const char *path) {
    char **names;
    long count = list_names(path, &names);
    if (count < 0)
        give_up(path);
    printf("%s: %s", what, count ? "" : "nothing");
    for (long i = 0; i < count; i++) {
        char below[4096];
        struct stat status;
        snprintf(below, sizeof below, "%s/%s", path, names[i]);
        if (lstat(below, &status) < 0)
            give_up(below);
        const char *kind = S_ISDIR(status.st_mode) ? "directory" : S_ISLNK(status.st_mode) ? "link" : "file";
        printf("%s%s %s", i ? ", " : "", kind, names[i]);
        free(names[i]);
    }
    putchar('\n');
    free(names);
}

int compare_names(const void *one, const void *two) {
    return strcmp(*(char *const *)one, *(char *const *)two);
}

long list_names(const char *path, char ***names) {
    DIR *directory = opendir(path);
    if (!directory)
        return -1;
    long count = 0, room = 16;
    char **all = malloc((size_t)room * sizeof *all);
    struct dirent *entry;
    while (all && (entry = readdir(directory))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (count == room)
            all = realloc(all, (size_t)(room *= 2) * sizeof *all);
        if (all)
            all[count++] = strdup(entry->d_name);
    }
    if (!all)
        give_up("memory");
    closedir(directory);
    qsort(all, (size_t)count, sizeof *all, compare_names);
    *names = all;
    return count;
}

unsigned char *slurp(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file)
        give_up(path);
    size_t room = 4096, filled = 0, count;
    unsigned char *bytes = malloc(room);
    while (bytes && (count = fread(bytes + filled, 1, room - filled, file)) > 0) {
        filled += count;
        if (filled == room)
            bytes = realloc(bytes, room *= 2);
    }
    if (!bytes || ferror(file))
        give_up(path);
    fclose(file);
    *length = filled;
    return bytes;
}

void spill(const char *path, const void *bytes, size_t length) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, length, file) != length || fclose(file) != 0)
        give_up(path);
}

void spill_text(const char *path, const char *text) {
    spill(path, text, strlen(text));
}

uint64_t sum_on(uint64_t sum, const void *bytes, size_t length) {
    const unsigned char *from = bytes;
    for (size_t i = 0; i < length; i++)
        sum = (sum ^ from[i]) * UINT64_C(0x100000001b3);
    return sum;
}
