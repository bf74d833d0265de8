/* Clocks and random numbers. */
#include "conform.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

/* 2020-01-01 in seconds since 1970. */
#define Y2020 1577836800

static int64_t monotonic(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) < 0)
        give_up("clock");
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void clocks(void) {
    time_t before = time(NULL);
    say("the real time is after 2020", "%s", yes(before > Y2020));
    int64_t first = monotonic(), last = first;
    int back = 0;
    for (int i = 0; i < 1000; i++) {
        int64_t now = monotonic();
        back |= now < last;
        last = now;
    }
    say("the monotonic time goes back", "%s", yes(back));
    say("the monotonic time goes on", "%s", yes(last > first));
    int64_t start = monotonic();
    struct timespec wait = {0, 20 * 1000 * 1000};
    if (nanosleep(&wait, NULL) < 0)
        give_up("sleep");
    say("a sleep of 20 ms takes that long", "%s", yes(monotonic() - start >= 20 * 1000 * 1000));
    spill_text("stamped", "now\n");
    struct stat status;
    if (stat("stamped", &status) < 0)
        give_up("stamped");
    /* A disk may round a file's time down. */
    say("a new file's time is now", "%s", yes(status.st_mtim.tv_sec >= before - 2 && status.st_mtim.tv_sec <= time(NULL)));
}

static void fill(unsigned char *buffer, size_t length) {
    /* The most that one call may ask for. */
    const size_t piece = 256;
    for (size_t at = 0; at < length; at += piece)
        if (getentropy(buffer + at, piece) < 0)
            give_up("random");
}

void random_bytes(void) {
    static unsigned char one[4096], two[4096];
    fill(one, sizeof one);
    fill(two, sizeof two);
    int seen[256] = {0}, distinct = 0, end = 0;
    for (size_t i = 0; i < sizeof one; i++)
        distinct += seen[one[i]]++ == 0;
    for (size_t i = 4064; i < sizeof one; i++)
        end |= one[i];
    /* Of 4096 random bytes fewer than 200 different ones are as likely as none. */
    say("all kinds of bytes", "%s", yes(distinct > 200));
    say("the end is filled", "%s", yes(end));
    say("two draws differ", "%s", yes(memcmp(one, two, sizeof one) != 0));
}
