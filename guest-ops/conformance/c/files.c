/* One file after the other: made, changed, renamed, removed. */
#include "conform.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int open_or_give_up(const char *path, int flags) {
    int fd = open(path, flags, 0644);
    if (fd < 0)
        give_up(path);
    return fd;
}

static void put(int fd, const char *text) {
    if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        give_up("write");
}

static void by_position(int fd, const char *path) {
    char buffer[16];
    ssize_t count = pread(fd, buffer, sizeof buffer, 10);
    char *text = quoted(buffer, count < 0 ? 0 : (size_t)count);
    say("read at 10", "%s", text);
    free(text);
    if (pwrite(fd, "F", 1, 0) != 1)
        give_up("pwrite");
    say_content("write at 0", path);
    say("position is kept", "%s", yes(lseek(fd, 0, SEEK_CUR) == 13));
}

static void change(const char *path) {
    int fd = open_or_give_up(path, O_WRONLY | O_CREAT | O_TRUNC);
    tell("create", (int)write(fd, "first\n", 6));
    close(fd);
    tell("create again, exclusive", open(path, O_WRONLY | O_CREAT | O_EXCL, 0644));
    say_content("content", path);
    fd = open_or_give_up(path, O_WRONLY | O_APPEND);
    put(fd, "second\n");
    close(fd);
    say_content("append", path);

    fd = open_or_give_up(path, O_RDWR);
    if (ftruncate(fd, 3) < 0)
        give_up("truncate");
    say_content("truncate to 3", path);
    if (ftruncate(fd, 6) < 0)
        give_up("extend");
    say_content("extend to 6", path);
    if (lseek(fd, 10, SEEK_SET) < 0)
        give_up("seek");
    put(fd, "end");
    say_content("write at 10 after seeking", path);
    say("position", "%lld", (long long)lseek(fd, 0, SEEK_CUR));
    struct stat status;
    if (fstat(fd, &status) < 0)
        give_up("fstat");
    say("size", "%lld", (long long)status.st_size);
    by_position(fd, path);
    char rest[16];
    say("read at the end", "%zd bytes", read(fd, rest, sizeof rest));
    close(fd);

    fd = open_or_give_up("input/text.txt", O_WRONLY);
    if (lseek(fd, 4, SEEK_SET) < 0)
        give_up("seek");
    put(fd, "TWO");
    close(fd);
    say_content("overwrite in the middle", "input/text.txt");
}

static void sparse(const char *path) {
    FILE *file = fopen(path, "wxb");
    if (!file || fseek(file, 1 << 20, SEEK_SET) < 0 || fputc('x', file) != 'x' || fclose(file) != 0)
        give_up(path);
    size_t length;
    unsigned char *bytes = slurp(path, &length);
    say("sparse", "%zu bytes, sum %016" PRIx64, length, sum_on(SUM_START, bytes, length));
    free(bytes);
}

static void rename_file(void) {
    spill_text("files/b", "old");
    tell("rename over existing", rename("files/a", "files/b"));
    say_content("replaced", "files/b");
    tell("old name", open("files/a", O_RDONLY));
    tell("rename onto itself", rename("files/b", "files/b"));
    say_content("still there", "files/b");
}

static void unlink_while_open(const char *path) {
    spill_text(path, "going");
    int fd = open_or_give_up(path, O_RDWR);
    tell("unlink while open", unlink(path));
    tell("its name", open(path, O_RDONLY));
    lseek(fd, 0, SEEK_END);
    put(fd, ", gone");
    lseek(fd, 0, SEEK_SET);
    char buffer[32];
    ssize_t count = read(fd, buffer, sizeof buffer);
    char *text = quoted(buffer, count < 0 ? 0 : (size_t)count);
    say("still readable and writable", "%s", text);
    free(text);
    spill_text(path, "new");
    say_content("a new file of that name", path);
    struct stat status;
    if (fstat(fd, &status) < 0)
        give_up("fstat");
    say("the old one", "%lld bytes", (long long)status.st_size);
    close(fd);
}

static void copy(void) {
    size_t length;
    unsigned char *bytes = slurp("input/bytes.bin", &length);
    spill("files/copy", bytes, length);
    free(bytes);
    bytes = slurp("files/copy", &length);
    say("copy", "%zu bytes, sum %016" PRIx64, length, sum_on(SUM_START, bytes, length));
    spill("files/other", bytes, length);
    free(bytes);
    tell("remove", unlink("files/other"));
    tell("remove again", unlink("files/other"));
}

void files(void) {
    if (mkdir("files", 0755) < 0)
        give_up("files");
    change("files/a");
    sparse("files/sparse");
    rename_file();
    unlink_while_open("files/open");
    copy();
}
