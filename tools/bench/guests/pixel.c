/* pixel FACTOR PICTURE RESULT: enlarges a picture (PPM, P6) by a whole factor, bilinearly, and softens it. */
#include "toolkit.h"

struct picture {
    unsigned width, height;
    uint8_t *samples;
};

static unsigned header_number(const char *name, char **at) {
    unsigned long number = strtoul(*at, at, 10);
    if (number == 0 || number > 32768)
        die("not a picture that this program takes", name);
    return (unsigned)number;
}

static struct picture load(const char *name) {
    struct text all = read_all(name);
    if (strncmp(all.bytes, "P6", 2) != 0)
        die("not a PPM picture", name);
    char *at = all.bytes + 2;
    struct picture picture = {0};
    picture.width = header_number(name, &at);
    picture.height = header_number(name, &at);
    header_number(name, &at);
    picture.samples = (uint8_t *)at + 1;
    if ((size_t)(at + 1 - all.bytes) + (size_t)picture.width * picture.height * 3 > all.length)
        die("a picture that is cut off", name);
    return picture;
}

static struct picture empty(unsigned width, unsigned height) {
    return (struct picture){width, height, grow(NULL, (size_t)width * height * 3)};
}

static unsigned sample(const struct picture *from, unsigned x, unsigned y, unsigned colour) {
    x = x < from->width ? x : from->width - 1;
    y = y < from->height ? y : from->height - 1;
    return from->samples[((size_t)y * from->width + x) * 3 + colour];
}

static struct picture enlarge(const struct picture *from, unsigned factor) {
    struct picture to = empty(from->width * factor, from->height * factor);
    uint8_t *out = to.samples;
    for (unsigned y = 0; y < to.height; y++)
        for (unsigned x = 0; x < to.width; x++)
            for (unsigned colour = 0; colour < 3; colour++) {
                unsigned fx = x % factor, fy = y % factor, x0 = x / factor, y0 = y / factor;
                unsigned above = sample(from, x0, y0, colour) * (factor - fx) + sample(from, x0 + 1, y0, colour) * fx;
                unsigned below =
                    sample(from, x0, y0 + 1, colour) * (factor - fx) + sample(from, x0 + 1, y0 + 1, colour) * fx;
                *out++ = (uint8_t)((above * (factor - fy) + below * fy) / (factor * factor));
            }
    return to;
}

/* Each sample becomes the mean of itself, twice, and of the ones right and below. */
static void soften(struct picture *picture) {
    uint8_t *out = picture->samples;
    for (unsigned y = 0; y < picture->height; y++)
        for (unsigned x = 0; x < picture->width; x++)
            for (unsigned colour = 0; colour < 3; colour++, out++)
                *out = (uint8_t)((*out * 2u + sample(picture, x + 1, y, colour) + sample(picture, x, y + 1, colour)) / 4);
}

int main(int count, char **arguments) {
    if (count != 4)
        die("usage: pixel FACTOR PICTURE RESULT", "pixel");
    unsigned factor = (unsigned)strtoul(arguments[1], NULL, 10);
    if (factor < 1 || factor > 16)
        die("a factor from 1 to 16 is wanted", "pixel");
    struct picture from = load(arguments[2]), to = enlarge(&from, factor);
    soften(&to);
    FILE *out = must_open(arguments[3], "wb");
    fprintf(out, "P6\n%u %u\n255\n", to.width, to.height);
    fwrite(to.samples, 3, (size_t)to.width * to.height, out);
    must_close(out, arguments[3]);
    return 0;
}
