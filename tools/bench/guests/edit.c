/* edit SCRIPT TEXT RESULT: applies changes to lines: '5d' drops line 5, '5c words' replaces it, '5a words' adds one behind it.
 * The numbers are of the text as it was, and come in order. */
#include "toolkit.h"

struct change {
    unsigned long line;
    char what;
    const char *words;
};

/* The next change of the script; none at its end. */
static struct change next_change(char **script, const char *name) {
    char *line = next_line(script), *end;
    if (!line)
        return (struct change){0, 0, ""};
    unsigned long number = strtoul(line, &end, 10);
    if (!number || !strchr("dca", *end) || !*end)
        die("a damaged script", name);
    return (struct change){number, *end, end[1] == ' ' ? end + 2 : end + 1};
}

int main(int count, char **arguments) {
    if (count != 4)
        die("usage: edit SCRIPT TEXT RESULT", "edit");
    char *script = read_all(arguments[1]).bytes, *text = read_all(arguments[2]).bytes, *line;
    FILE *out = must_open(arguments[3], "wb");
    struct change change = next_change(&script, arguments[1]);
    for (unsigned long number = 1; (line = next_line(&text)); number++) {
        if (change.line != number) {
            fprintf(out, "%s\n", line);
            continue;
        }
        if (change.what == 'a')
            fprintf(out, "%s\n", line);
        if (change.what != 'd')
            fprintf(out, "%s\n", change.words);
        change = next_change(&script, arguments[1]);
    }
    must_close(out, arguments[3]);
    if (change.line)
        die("names a line that is not there", arguments[1]);
    return 0;
}
