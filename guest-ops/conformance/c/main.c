/* Prints what a preview 1 host does: `conform-c SCENARIO [ARGUMENT...]`. */
#include "conform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    void (*run)(void);
} SCENARIOS[] = {
    {"stdin", standard_input}, {"files", files},   {"directories", directories}, {"links", links},
    {"clocks", clocks},        {"random", random_bytes}, {"errors", errors},     {"escapes", escapes},
    {"stdio", standard_io},
};

int main(int argc, char **argv) {
    const char *scenario = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof SCENARIOS / sizeof *SCENARIOS; i++) {
        if (strcmp(scenario, SCENARIOS[i].name) == 0) {
            SCENARIOS[i].run();
            return 0;
        }
    }
    if (strcmp(scenario, "arguments") == 0) {
        arguments(argc, argv);
        return 0;
    }
    long number = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    if (strcmp(scenario, "exit") == 0)
        return leave((int)number);
    if (strcmp(scenario, "output") == 0)
        output(number);
    else if (strcmp(scenario, "large") == 0)
        large(number);
    else if (strcmp(scenario, "deep") == 0)
        deep((int)number);
    else if (strcmp(scenario, "many") == 0)
        many(number);
    else {
        fprintf(stderr, "unknown scenario '%s'\n", scenario);
        return 2;
    }
    return 0;
}
