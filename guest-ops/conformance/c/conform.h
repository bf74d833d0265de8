/* What the scenarios share: the text form of what was seen, the same as the guests in other languages print. */
#ifndef CONFORM_H
#define CONFORM_H

#include <stdint.h>
#include <stddef.h>
#include <sys/stat.h>

/* Prints `WHAT: ` and then as printf does, with a line end. */
void say(const char *what, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints `WHAT: ok`, or the errno's name if `result` is negative. */
void tell(const char *what, int result);
/* The name of the last error. */
const char *error_name(void);
const char *yes(int truth);
/* Ends the guest: a step that prepares another has failed. */
_Noreturn void give_up(const char *what);
/* Bytes in quotes: printable ASCII as it is, the rest escaped. To be freed. */
char *quoted(const void *bytes, size_t length);
/* Prints a file's content in quotes. */
void say_content(const char *what, const char *path);
/* Prints `file of 3 bytes` or the like. */
void say_kind(const char *what, const struct stat *status);
/* Prints the names in a directory in byte order, each with its kind. */
void say_listing(const char *what, const char *path);

/* Reads a whole file; to be freed. */
unsigned char *slurp(const char *path, size_t *length);
void spill(const char *path, const void *bytes, size_t length);
void spill_text(const char *path, const char *text);

#define SUM_START UINT64_C(0xcbf29ce484222325)
/* FNV-1a with 64 bits, carried on from `sum`. */
uint64_t sum_on(uint64_t sum, const void *bytes, size_t length);

/* All names in a directory but `.` and `..`, sorted; each and the array to be freed. -1 if it cannot be listed. */
long list_names(const char *path, char ***names);
int compare_names(const void *one, const void *two);

void arguments(int argc, char **argv);
void standard_input(void);
void output(long lines);
int leave(int code);
void files(void);
void directories(void);
void links(void);
void clocks(void);
void random_bytes(void);
void large(long mib);
void deep(int levels);
void many(long count);
void errors(void);
void escapes(void);
void standard_io(void);

#endif
