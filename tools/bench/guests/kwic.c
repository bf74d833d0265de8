/* kwic TEXT INDEX: an index of keywords in context: every word of six letters or more, in order, with what stands around it. */
#include "toolkit.h"

enum { CONTEXT = 24, LETTERS = 6 };

struct entry {
    uint32_t at;
    uint32_t line;
    uint32_t length;
};

static struct text all;
static struct entry *entries;
static size_t count, room;

static int compare(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    uint32_t length = x->length < y->length ? x->length : y->length;
    int order = memcmp(all.bytes + x->at, all.bytes + y->at, length);
    if (order == 0)
        order = x->length < y->length ? -1 : x->length > y->length;
    return order ? order : (x->at < y->at ? -1 : x->at > y->at);
}

static void collect(void) {
    uint32_t line = 1;
    for (size_t i = 0; i < all.length;) {
        size_t start = i;
        while (i < all.length && isalpha((unsigned char)all.bytes[i]))
            i++;
        if (i - start >= LETTERS) {
            if (count == room)
                entries = grow(entries, (room = room * 2 + 1024) * sizeof *entries);
            entries[count++] = (struct entry){(uint32_t)start, line, (uint32_t)(i - start)};
        }
        if (i < all.length && all.bytes[i++] == '\n')
            line++;
    }
}

static void context(FILE *out, size_t from, size_t to) {
    for (size_t i = from; i < to; i++)
        fputc(all.bytes[i] == '\n' ? ' ' : all.bytes[i], out);
}

static void write_entry(FILE *out, const struct entry *entry) {
    size_t from = entry->at > CONTEXT ? entry->at - CONTEXT : 0, end = entry->at + entry->length;
    size_t to = end + CONTEXT < all.length ? end + CONTEXT : all.length;
    fprintf(out, "%*s", (int)(CONTEXT - (entry->at - from)), "");
    context(out, from, entry->at);
    fputc('|', out);
    context(out, entry->at, to);
    fprintf(out, " %u\n", entry->line);
}

int main(int argument_count, char **arguments) {
    if (argument_count != 3)
        die("usage: kwic TEXT INDEX", "kwic");
    all = read_all(arguments[1]);
    if (all.length > UINT32_MAX)
        die("too long", arguments[1]);
    collect();
    qsort(entries, count, sizeof *entries, compare);
    FILE *out = must_open(arguments[2], "wb");
    for (size_t i = 0; i < count; i++)
        write_entry(out, &entries[i]);
    must_close(out, arguments[2]);
    return 0;
}
