/* llgen GRAMMAR PARSER: makes the tables of an LL(1) parser, as C source.
 *
 * A rule is a line 'name : word word ...'; words with a rule are nonterminals, the others terminals; rules of one name are
 * its alternatives; no word behind the colon is the empty alternative. */
#include "toolkit.h"

struct rule {
    int left;
    int *right;
    int length;
};

static char **names;
static int name_count;
static int *slots, slot_count;
static struct rule *rules;
static int rule_count;
static char *is_left;
static int *number, terminal_count, left_count;
static uint8_t **first, **follow, *is_empty;

static int id(char *name) {
    if (name_count * 2 >= slot_count) {
        slot_count = slot_count * 2 + 256;
        slots = grow(slots, (size_t)slot_count * sizeof *slots);
        memset(slots, -1, (size_t)slot_count * sizeof *slots);
        for (int i = 0; i < name_count; i++) {
            unsigned hash = 5381;
            for (char *c = names[i]; *c; c++)
                hash = hash * 33 + (unsigned char)*c;
            unsigned slot = hash % (unsigned)slot_count;
            while (slots[slot] >= 0)
                slot = (slot + 1) % (unsigned)slot_count;
            slots[slot] = i;
        }
    }
    unsigned hash = 5381;
    for (char *c = name; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    unsigned slot = hash % (unsigned)slot_count;
    for (; slots[slot] >= 0; slot = (slot + 1) % (unsigned)slot_count)
        if (strcmp(names[slots[slot]], name) == 0)
            return slots[slot];
    names = grow(names, (size_t)(name_count + 1) * sizeof *names);
    names[name_count] = name;
    slots[slot] = name_count;
    return name_count++;
}

static void read_rules(const char *file) {
    char *at = read_all(file).bytes, *line, *rest;
    while ((line = next_line(&at))) {
        char *word = strtok_r(line, " ", &rest);
        if (!word)
            continue;
        struct rule rule = {id(word), NULL, 0};
        strtok_r(NULL, " ", &rest);
        while ((word = strtok_r(NULL, " ", &rest))) {
            rule.right = grow(rule.right, (size_t)(rule.length + 1) * sizeof *rule.right);
            rule.right[rule.length++] = id(word);
        }
        rules = grow(rules, (size_t)(rule_count + 1) * sizeof *rules);
        rules[rule_count++] = rule;
    }
}

static void tell_apart(void) {
    is_left = calloc((size_t)name_count + 1, 1);
    number = calloc((size_t)name_count + 1, sizeof *number);
    first = calloc((size_t)name_count + 1, sizeof *first);
    follow = calloc((size_t)name_count + 1, sizeof *follow);
    is_empty = calloc((size_t)name_count + 1, 1);
    if (!is_left || !number || !first || !follow || !is_empty)
        die("no memory", "llgen");
    for (int i = 0; i < rule_count; i++)
        is_left[rules[i].left] = 1;
    for (int i = 0; i < name_count; i++)
        number[i] = is_left[i] ? left_count++ : terminal_count++;
    for (int i = 0; i < name_count; i++) {
        first[i] = calloc((size_t)terminal_count + 1, 1);
        follow[i] = calloc((size_t)terminal_count + 1, 1);
        if (!first[i] || !follow[i])
            die("no memory", "llgen");
        if (!is_left[i])
            first[i][number[i]] = 1;
    }
}

static int add(uint8_t *to, const uint8_t *from) {
    int changed = 0;
    for (int i = 0; i < terminal_count; i++)
        if (from[i] && !to[i])
            to[i] = 1, changed = 1;
    return changed;
}

/* One pass over a rule; says whether a set grew. */
static int pass(const struct rule *rule) {
    int changed = 0, all_empty = 1;
    for (int i = 0; i < rule->length && all_empty; i++) {
        changed |= add(first[rule->left], first[rule->right[i]]);
        all_empty = is_empty[rule->right[i]];
    }
    if (all_empty && !is_empty[rule->left])
        is_empty[rule->left] = 1, changed = 1;
    for (int i = 0; i < rule->length; i++) {
        int j = i + 1;
        for (; j < rule->length; j++) {
            changed |= add(follow[rule->right[i]], first[rule->right[j]]);
            if (!is_empty[rule->right[j]])
                break;
        }
        if (j == rule->length)
            changed |= add(follow[rule->right[i]], follow[rule->left]);
    }
    return changed;
}

static void enter(short *table, int index) {
    const struct rule *rule = &rules[index];
    short *row = table + (size_t)number[rule->left] * (size_t)terminal_count;
    int all_empty = 1;
    for (int i = 0; i < rule->length && all_empty; i++) {
        for (int t = 0; t < terminal_count; t++)
            if (first[rule->right[i]][t])
                row[t] = (short)(index + 1);
        all_empty = is_empty[rule->right[i]];
    }
    for (int t = 0; all_empty && t < terminal_count; t++)
        if (follow[rule->left][t])
            row[t] = (short)(index + 1);
}

static void write_tables(FILE *out, const short *table) {
    fprintf(out, "enum {");
    for (int i = 0; i < name_count; i++)
        fprintf(out, "%s\n    %s_%s = %d,", "", is_left[i] ? "RULE" : "TOKEN", names[i], number[i]);
    fprintf(out, "\n};\n\nstatic const short table[%d][%d] = {\n", left_count, terminal_count);
    for (int l = 0; l < left_count; l++) {
        fprintf(out, "    {");
        for (int t = 0; t < terminal_count; t++)
            fprintf(out, "%d,", table[(size_t)l * (size_t)terminal_count + (size_t)t]);
        fprintf(out, "},\n");
    }
    fprintf(out, "};\n");
}

int main(int count, char **arguments) {
    if (count != 3)
        die("usage: llgen GRAMMAR PARSER", "llgen");
    read_rules(arguments[1]);
    tell_apart();
    for (int changed = 1; changed;) {
        changed = 0;
        for (int i = 0; i < rule_count; i++)
            changed |= pass(&rules[i]);
    }
    short *table = calloc((size_t)left_count * (size_t)terminal_count + 1, sizeof *table);
    if (!table)
        die("no memory", "llgen");
    for (int i = 0; i < rule_count; i++)
        enter(table, i);
    FILE *out = must_open(arguments[2], "wb");
    write_tables(out, table);
    must_close(out, arguments[2]);
    return 0;
}
