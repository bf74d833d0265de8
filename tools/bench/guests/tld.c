/* tld IMAGE MAP OBJECT...: links objects of 'toycc' to an image of 32-bit words, with a map of all names and their uses. */
#include "toolkit.h"

struct symbol {
    char *name;
    unsigned address;
    unsigned uses;
    const char *object;
};

struct fixup {
    char *name;
    unsigned word;
};

static uint32_t *words;
static unsigned word_count, word_room;
static struct symbol *symbols;
static size_t symbol_count, symbol_room;
static struct fixup *fixups;
static size_t fixup_count, fixup_room;

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct symbol *)a)->name, ((const struct symbol *)b)->name);
}

static void add_word(uint32_t word) {
    if (word_count == word_room)
        words = grow(words, (word_room = word_room * 2 + 1024) * sizeof *words);
    words[word_count++] = word;
}

static void define(char *name, unsigned address, const char *object) {
    if (symbol_count == symbol_room)
        symbols = grow(symbols, (symbol_room = symbol_room * 2 + 64) * sizeof *symbols);
    symbols[symbol_count++] = (struct symbol){name, address, 0, object};
}

static void use(char *name, unsigned word) {
    if (fixup_count == fixup_room)
        fixups = grow(fixups, (fixup_room = fixup_room * 2 + 64) * sizeof *fixups);
    fixups[fixup_count++] = (struct fixup){name, word};
}

/* Jumps of an object hold the number of a label, loops an address: both become addresses of the image. */
static void relocate(unsigned first, const unsigned *labels, size_t label_count) {
    for (unsigned i = first; i < word_count; i++) {
        unsigned code = words[i] >> 24, operand = words[i] & 0xffffff;
        if (code == 0x30 && operand < label_count)
            words[i] = (code << 24) | ((labels[operand] + first * 4) & 0xffffff);
        if (code == 0x31)
            words[i] = (code << 24) | ((operand + first * 4) & 0xffffff);
    }
}

static void load(const char *file) {
    char *at = read_all(file).bytes, *line;
    unsigned first = word_count, *labels = NULL;
    size_t label_count = 0;
    while ((line = next_line(&at))) {
        char *rest = line + 2, *end;
        if (line[0] == 'T') {
            add_word((uint32_t)strtoul(rest, NULL, 16));
        } else if (line[0] == 'D') {
            end = strchr(rest, ' ');
            if (!end)
                die("a damaged object", file);
            *end = 0;
            define(rest, first * 4 + (unsigned)strtoul(end + 1, NULL, 16), file);
        } else if (line[0] == 'R') {
            unsigned where = (unsigned)strtoul(rest, &end, 16);
            use(end + 1, first + where / 4);
        } else if (line[0] == 'L') {
            size_t label = strtoul(rest, &end, 10);
            if (label > 1u << 24)
                die("a damaged object", file);
            while (label_count <= label) {
                if ((label_count & (label_count - 1)) == 0)
                    labels = grow(labels, (label_count * 2 + 1) * sizeof *labels);
                labels[label_count++] = 0;
            }
            labels[label] = (unsigned)strtoul(end, NULL, 16);
        }
    }
    relocate(first, labels, label_count);
}

static void resolve(void) {
    qsort(symbols, symbol_count, sizeof *symbols, by_name);
    for (size_t i = 0; i < fixup_count; i++) {
        struct symbol wanted = {fixups[i].name, 0, 0, NULL};
        struct symbol *found = bsearch(&wanted, symbols, symbol_count, sizeof *symbols, by_name);
        if (!found || fixups[i].word >= word_count)
            die("is not defined", fixups[i].name);
        found->uses++;
        words[fixups[i].word] = (0x10u << 24) | (found->address & 0xffffff);
    }
}

int main(int count, char **arguments) {
    if (count < 4)
        die("usage: tld IMAGE MAP OBJECT...", "tld");
    for (int i = 3; i < count; i++)
        load(arguments[i]);
    resolve();
    FILE *image = must_open(arguments[1], "wb"), *map = must_open(arguments[2], "wb");
    fwrite(words, sizeof *words, word_count, image);
    for (size_t i = 0; i < symbol_count; i++)
        fprintf(map, "%-28s %06x  %4u uses  %s\n", symbols[i].name, symbols[i].address, symbols[i].uses,
                symbols[i].object);
    must_close(image, arguments[1]);
    must_close(map, arguments[2]);
    return 0;
}
