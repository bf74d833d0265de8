/* toycc SOURCE OBJECT LISTING: compiles a toy language for a stack machine.
 *
 *   fn name(a, b) { let x = a + f(b) * 3; while x > 1 { x = x - 1; } if x { return b; } return x; }
 *
 * The listing has each line of source followed by its code; the object is what 'tld' links. */
#include "toolkit.h"

enum { LOCALS = 32, NAME = 32 };

static struct text source;
static const char *file_name;
static char *at;
static unsigned line = 1;
static FILE *object, *listing;
static unsigned address;
static char locals[LOCALS][NAME];
static int local_count;
static unsigned label_count;

static void fail(const char *what) {
    fprintf(stderr, "%s:%u: %s\n", file_name, line, what);
    exit(1);
}

static void list_line(void) {
    fprintf(listing, "%5u                             | %.*s\n", line, (int)strcspn(at, "\n"), at);
}

static void space(void) {
    while (isspace((unsigned char)*at)) {
        if (*at++ == '\n') {
            line++;
            list_line();
        }
    }
}

static void emit(const char *op, unsigned code, int operand) {
    uint32_t word = (code << 24) | ((uint32_t)operand & 0xffffff);
    fprintf(object, "T %08x\n", word);
    fprintf(listing, "      %06x  %08x   %-6s %d\n", address, word, op, operand);
    address += 4;
}

static int accept(const char *symbol) {
    space();
    size_t length = strlen(symbol);
    if (strncmp(at, symbol, length) != 0)
        return 0;
    if (isalpha((unsigned char)*symbol) && isalnum((unsigned char)at[length]))
        return 0;
    at += length;
    return 1;
}

static void expect(const char *symbol) {
    if (!accept(symbol))
        fail(symbol);
}

static void name(char *into) {
    space();
    size_t length = 0;
    while (isalnum((unsigned char)at[length]) || at[length] == '_')
        length++;
    if (length == 0 || length >= NAME)
        fail("a name is wanted");
    memcpy(into, at, length);
    into[length] = 0;
    at += length;
}

static int local(const char *wanted, int declare) {
    for (int i = 0; i < local_count; i++)
        if (strcmp(locals[i], wanted) == 0)
            return i;
    if (!declare)
        fail("an unknown name");
    if (local_count == LOCALS)
        fail("too many names");
    strcpy(locals[local_count], wanted);
    return local_count++;
}

static void expression(void);

static void call(const char *callee) {
    int arguments = 0;
    while (!accept(")")) {
        if (arguments++)
            expect(",");
        expression();
    }
    fprintf(object, "R %x %s\n", address, callee);
    emit("call", 0x10, arguments);
}

static void primary(void) {
    space();
    if (isdigit((unsigned char)*at)) {
        emit("push", 0x01, (int)strtol(at, &at, 10));
    } else if (accept("(")) {
        expression();
        expect(")");
    } else {
        char word[NAME];
        name(word);
        if (accept("("))
            call(word);
        else
            emit("load", 0x02, local(word, 0));
    }
}

static void product(void) {
    primary();
    for (;;) {
        if (accept("*")) {
            primary();
            emit("mul", 0x22, 0);
        } else if (accept("/")) {
            primary();
            emit("div", 0x23, 0);
        } else {
            return;
        }
    }
}

static void sum(void) {
    product();
    for (;;) {
        if (accept("+")) {
            product();
            emit("add", 0x20, 0);
        } else if (accept("-")) {
            product();
            emit("sub", 0x21, 0);
        } else {
            return;
        }
    }
}

static void expression(void) {
    sum();
    if (accept(">")) {
        sum();
        emit("gt", 0x24, 0);
    } else if (accept("<")) {
        sum();
        emit("lt", 0x25, 0);
    }
}

static void block(void);

static void statement(void) {
    char word[NAME];
    if (accept("return")) {
        expression();
        expect(";");
        emit("ret", 0x11, 0);
    } else if (accept("while") || accept("if")) {
        int is_loop = at[-1] == 'e';
        unsigned label = label_count++, top = address;
        expression();
        emit("jz", 0x30, (int)label);
        block();
        if (is_loop)
            emit("jump", 0x31, (int)top);
        fprintf(object, "L %u %x\n", label, address);
    } else {
        int declare = accept("let");
        name(word);
        if (accept("(")) {
            call(word);
            emit("drop", 0x04, 0);
        } else {
            int slot = local(word, declare);
            expect("=");
            expression();
            emit("store", 0x03, slot);
        }
        expect(";");
    }
}

static void block(void) {
    expect("{");
    while (!accept("}"))
        statement();
}

static void function(void) {
    char word[NAME];
    name(word);
    fprintf(object, "D %s %x\n", word, address);
    fprintf(listing, "%s:\n", word);
    local_count = 0;
    expect("(");
    for (int count = 0; !accept(")"); count++) {
        if (count)
            expect(",");
        name(word);
        local(word, 1);
    }
    block();
    emit("ret", 0x11, 0);
}

int main(int count, char **arguments) {
    if (count != 4)
        die("usage: toycc SOURCE OBJECT LISTING", "toycc");
    file_name = arguments[1];
    source = read_all(file_name);
    at = source.bytes;
    object = must_open(arguments[2], "wb");
    listing = must_open(arguments[3], "wb");
    list_line();
    for (space(); *at; space()) {
        expect("fn");
        function();
    }
    must_close(object, arguments[2]);
    must_close(listing, arguments[3]);
    return 0;
}
