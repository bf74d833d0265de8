/* roff SOURCE PAGES: formats text for a line printer: filled and justified lines, headings, pages, a table of contents.
 *
 * Lines that begin with a point are requests: .TI title, .SH heading, .PP paragraph; all else is words. */
#include "toolkit.h"

enum { WIDTH = 66, PAGE = 60, INDENT = 6, HEADINGS = 1 << 16 };

static FILE *out;
static char title[256];
static char *filled[WIDTH];
static int word_count, filled_length;
static unsigned page, row;
static char *headings[HEADINGS];
static unsigned heading_pages[HEADINGS], heading_count;

static void put(const char *text) {
    if (row == 0) {
        page++;
        fprintf(out, "%*s%-*s%4u\n\n", INDENT, "", WIDTH - 4, title, page);
    }
    if (*text)
        fprintf(out, "%*s%s\n", INDENT, "", text);
    else
        fputc('\n', out);
    if (++row == PAGE) {
        fputs("\f", out);
        row = 0;
    }
}

/* Spreads the spaces that a line lacks between its words, from the right and from the left by turns. */
static void flush(int justified) {
    char text[WIDTH * 2 + 1];
    int at = 0, gaps = word_count - 1, lacking = justified ? WIDTH - filled_length : 0;
    for (int i = 0; i < word_count; i++) {
        at += sprintf(text + at, "%s", filled[i]);
        if (i == gaps)
            break;
        int from_end = row % 2 ? gaps - 1 - i : i;
        int spaces = 1 + lacking / gaps + (from_end < lacking % gaps);
        at += sprintf(text + at, "%*s", spaces, "");
    }
    text[at] = 0;
    if (word_count)
        put(text);
    word_count = filled_length = 0;
}

static void add_word(char *word) {
    int length = (int)strlen(word);
    if (length > WIDTH)
        word[length = WIDTH] = 0;
    if (word_count && filled_length + 1 + length > WIDTH)
        flush(word_count > 1);
    filled_length += length + (word_count > 0);
    filled[word_count++] = word;
}

static void request(char *line) {
    char *rest = line + 3 + (line[3] == ' ');
    flush(0);
    if (strncmp(line, ".TI", 3) == 0) {
        snprintf(title, sizeof title, "%s", rest);
    } else if (strncmp(line, ".SH", 3) == 0) {
        put("");
        if (row == PAGE - 1)
            put("");
        char text[WIDTH + 1];
        snprintf(text, sizeof text, "%u. %s", heading_count + 1, rest);
        put(text);
        put("");
        if (heading_count < HEADINGS) {
            headings[heading_count] = rest;
            heading_pages[heading_count++] = page;
        }
    } else if (strncmp(line, ".PP", 3) == 0) {
        put("");
    }
}

static void contents(void) {
    flush(0);
    put("");
    put("Contents");
    put("");
    for (unsigned i = 0; i < heading_count; i++) {
        char text[WIDTH + 1], name[WIDTH - 8];
        snprintf(name, sizeof name, "%u. %s", i + 1, headings[i]);
        int at = snprintf(text, sizeof text, "%s ", name);
        while (at < WIDTH - 6)
            text[at++] = '.';
        snprintf(text + at, sizeof text - (size_t)at, "%5u", heading_pages[i]);
        put(text);
    }
}

int main(int count, char **arguments) {
    if (count != 3)
        die("usage: roff SOURCE PAGES", "roff");
    char *at = read_all(arguments[1]).bytes, *line, *rest;
    out = must_open(arguments[2], "wb");
    while ((line = next_line(&at))) {
        if (line[0] == '.' && strlen(line) >= 3) {
            request(line);
            continue;
        }
        for (char *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
            add_word(word);
    }
    contents();
    must_close(out, arguments[2]);
    return 0;
}
