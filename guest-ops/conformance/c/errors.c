/* What fails, and how. */
#include "conform.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int list(const char *path) {
    DIR *directory = opendir(path);
    return directory ? closedir(directory) : -1;
}

static void paths(void) {
    char name[301], target[16];
    struct stat status;
    memset(name, 'n', 300);
    name[300] = 0;
    tell("open nothing", open("no", O_RDONLY));
    tell("open below nothing", open("no/such", O_RDONLY));
    tell("open below a file", open("input/text.txt/x", O_RDONLY));
    tell("open a file with a slash behind", open("input/text.txt/", O_RDONLY));
    tell("open a directory for writing", open("input", O_WRONLY));
    tell("create where a directory is", open("input", O_WRONLY | O_CREAT | O_TRUNC, 0644));
    tell("create below nothing", open("no/such", O_WRONLY | O_CREAT | O_TRUNC, 0644));
    tell("create with a slash behind", open("new/", O_WRONLY | O_CREAT | O_TRUNC, 0644));
    tell("a name of 300 bytes", open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644));
    tell("list nothing", list("no"));
    tell("list a file", list("input/text.txt"));
    tell("make a directory over a file", mkdir("input/text.txt", 0755));
    tell("make a directory over a directory", mkdir("input", 0755));
    tell("stat nothing", stat("no", &status));
    tell("target of a file", (int)readlink("input/text.txt", target, sizeof target));
    tell("target of a directory", (int)readlink("input", target, sizeof target));
    tell("target of nothing", (int)readlink("no", target, sizeof target));
    tell("link over a directory", symlink("x", "input"));
    tell("link below nothing", symlink("x", "no/such"));
}

static void removing(void) {
    tell("remove nothing", unlink("no"));
    tell("remove a directory as a file", unlink("input/sub"));
    tell("remove a file as a directory", rmdir("input/text.txt"));
    tell("remove a directory that is not there", rmdir("no"));
    tell("remove a full directory", rmdir("input/sub"));
    tell("rename nothing", rename("no", "yes"));
    tell("rename to below nothing", rename("input/empty", "no/such"));
    tell("rename to below a file", rename("input/empty", "input/text.txt/x"));
    tell("rename a file to a name with a slash behind", rename("input/empty", "input/new/"));
}

static void descriptors(void) {
    int reading = open("input/text.txt", O_RDONLY);
    int writing = open("written", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    char buffer[4];
    if (reading < 0 || writing < 0)
        give_up("open");
    tell("write what is open for reading", (int)write(reading, "x", 1));
    tell("read what is open for writing", (int)read(writing, buffer, sizeof buffer));
    tell("seek before the start", lseek(reading, -1, SEEK_CUR) < 0 ? -1 : 0);
    tell("seek far behind the end", lseek(reading, (off_t)1 << 40, SEEK_SET) < 0 ? -1 : 0);
    tell("read there", (int)read(reading, buffer, sizeof buffer));
}

void errors(void) {
    paths();
    removing();
    descriptors();
}

/* Ways out of the tree, for languages that pass paths on as they are. */
void escapes(void) {
    struct stat status;
    tell("the directory above", open("..", O_RDONLY));
    tell("a file above", open("../x", O_RDONLY));
    tell("above by way of a directory", open("input/../../x", O_RDONLY));
    tell("above for a moment", open("../input/text.txt", O_RDONLY));
    tell("make above", mkdir("../x", 0755));
    tell("remove above", unlink("../x"));
    tell("rename to above", rename("input/text.txt", "../x"));
    if (symlink("..", "up") < 0)
        give_up("up");
    tell("through a link to above", open("up/x", O_RDONLY));
    tell("a link to above itself", open("up", O_RDONLY));
    if (symlink("../../etc/passwd", "out") < 0)
        give_up("out");
    tell("through a link out", open("out", O_RDONLY));
    tell("make through a link out", open("out", O_WRONLY | O_CREAT | O_TRUNC, 0644));
    tell("a link with an absolute target", symlink("/etc", "absolute"));
    tell("the root's own dots", stat(".", &status));
}
