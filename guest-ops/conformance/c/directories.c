/* Directories: made, listed, renamed, removed. */
#include "conform.h"

#include <stdio.h>
#include <unistd.h>

static void make_or_give_up(const char *path) {
    if (mkdir(path, 0755) < 0)
        give_up(path);
}

static void make(void) {
    tell("make", mkdir("dirs", 0755));
    tell("make again", mkdir("dirs", 0755));
    tell("make below nothing", mkdir("dirs/no/such", 0755));
    spill_text("dirs/file", "in a file\n");
    tell("make below a file", mkdir("dirs/file/x", 0755));
    make_or_give_up("dirs/a");
    make_or_give_up("dirs/Z");
    spill_text("dirs/a/below", "below\n");
    say_listing("list", "dirs");
    say_listing("list input", "input");
    tell("remove non-empty", rmdir("dirs/a"));
    make_or_give_up("dirs/empty");
    say_listing("list empty", "dirs/empty");
}

static void rename_them(void) {
    tell("rename", rename("dirs/a", "dirs/b"));
    say_listing("list after renaming", "dirs");
    say_content("what is in it", "dirs/b/below");
    tell("rename over an empty directory", rename("dirs/b", "dirs/empty"));
    say_listing("list after replacing", "dirs");
    make_or_give_up("dirs/full");
    make_or_give_up("dirs/full/inner");
    spill_text("dirs/full/inner/leaf", "leaf\n");
    tell("rename over a non-empty directory", rename("dirs/Z", "dirs/full"));
    tell("rename into itself", rename("dirs/full", "dirs/full/inner/x"));
    tell("rename a file over a directory", rename("dirs/file", "dirs/full"));
    tell("rename a directory over a file", rename("dirs/full", "dirs/file"));
    tell("rename a directory up", rename("dirs/full/inner", "dirs/inner"));
    tell("rename it down again", rename("dirs/inner", "dirs/full/inner"));
    tell("move what was in a directory", rename("dirs/empty/below", "dirs/below"));
}

void directories(void) {
    make();
    rename_them();
    tell("remove", rmdir("dirs/empty"));
    tell("remove again", rmdir("dirs/empty"));
    int removed = unlink("dirs/full/inner/leaf") == 0 && rmdir("dirs/full/inner") == 0 && rmdir("dirs/full") == 0;
    tell("remove with all in it", removed ? 0 : -1);
    say_listing("left", "dirs");
}
