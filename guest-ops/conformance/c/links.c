/* Symbolic links and second names. */
#include "conform.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct stat status_of(const char *path, int follow) {
    struct stat status;
    if ((follow ? stat(path, &status) : lstat(path, &status)) < 0)
        give_up(path);
    return status;
}

static void say_target(const char *what, const char *path) {
    char buffer[256];
    ssize_t length = readlink(path, buffer, sizeof buffer);
    if (length < 0)
        give_up(path);
    char *text = quoted(buffer, (size_t)length);
    say(what, "%s", text);
    free(text);
}

static void link_or_give_up(const char *target, const char *path) {
    if (symlink(target, path) < 0)
        give_up(path);
}

static void to_files(void) {
    struct stat status;
    tell("make", symlink("../input/sub/leaf.txt", "links/leaf"));
    tell("make over existing", symlink("elsewhere", "links/leaf"));
    say_target("target", "links/leaf");
    status = status_of("links/leaf", 0);
    say_kind("itself", &status);
    status = status_of("links/leaf", 1);
    say_kind("followed", &status);
    say_content("through it", "links/leaf");
    tell("rename it", rename("links/leaf", "links/moved"));
    say_target("target after renaming", "links/moved");
    link_or_give_up("moved", "links/second");
    say_content("through two", "links/second");
    tell("remove it", unlink("links/second"));
    status = status_of("links/moved", 0);
    say_kind("what it led to", &status);
}

static void to_nothing(void) {
    struct stat status;
    link_or_give_up("nothing", "links/dangling");
    status = status_of("links/dangling", 0);
    say_kind("dangling, itself", &status);
    tell("dangling, followed", stat("links/dangling", &status));
    tell("dangling, opened", open("links/dangling", O_RDONLY));
    tell("dangling, made exclusively", open("links/dangling", O_WRONLY | O_CREAT | O_EXCL, 0644));
    int fd = open("links/dangling", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    tell("dangling, made", fd < 0 ? fd : (int)write(fd, "made\n", 5));
    close(fd);
    say_content("what was made", "links/nothing");
    link_or_give_up("loop-b", "links/loop-a");
    link_or_give_up("loop-a", "links/loop-b");
    tell("loop", open("links/loop-a", O_RDONLY));
    tell("below a loop", open("links/loop-a/x", O_RDONLY));
}

static void to_directories(void) {
    link_or_give_up("../input", "links/dir");
    say_listing("list through it", "links/dir");
    say_content("read through it", "links/dir/sub/leaf.txt");
    tell("remove it as a directory", rmdir("links/dir"));
    tell("make a directory over it", mkdir("links/dir", 0755));
    spill_text("links/dir/new", "new\n");
    say_content("made through it", "input/new");
    tell("remove through it", unlink("links/dir/new"));
}

static void second_names(void) {
    spill_text("links/one", "one\n");
    tell("second name", link("links/one", "links/two"));
    struct stat one = status_of("links/one", 1), two = status_of("links/two", 1);
    say("names", "%llu and %llu", (unsigned long long)one.st_nlink, (unsigned long long)two.st_nlink);
    say("the same file", "%s", yes(one.st_dev == two.st_dev && one.st_ino == two.st_ino));
    FILE *file = fopen("links/one", "ab");
    if (!file || fputs("more\n", file) < 0 || fclose(file) != 0)
        give_up("links/one");
    say_content("written by one, read by the other", "links/two");
    tell("rename one over the other", rename("links/one", "links/two"));
    say("both are still there", "%s", yes(access("links/one", F_OK) == 0 && access("links/two", F_OK) == 0));
    tell("remove one", unlink("links/one"));
    two = status_of("links/two", 1);
    say("names left", "%llu", (unsigned long long)two.st_nlink);
    say_content("content", "links/two");
    tell("second name of a directory", link("input", "links/three"));
    tell("second name over existing", link("links/two", "links/moved"));
    tell("second name of nothing", link("links/no", "links/four"));
}

void links(void) {
    if (mkdir("links", 0755) < 0)
        give_up("links");
    to_files();
    to_nothing();
    to_directories();
    second_names();
}
