// Runs the kernel of one shared object in a process of its own, for the sanitizers: `program INPUT OUTPUT`.
//
// INPUT: the fields of Header, the argument struct, `relocations` times Relocation, then each buffer: its size as uint64, its bytes.
// OUTPUT: the bytes of each buffer after the run. Every buffer is an allocation of exactly its size, which the address sanitizer watches.
// Exit status 3 and a line on stderr: the launch failed, or a file cannot be read or written.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" int cuda_on_cpu_run(const unsigned* grid, unsigned threads, size_t shared_bytes, const void* argument, int cooperative,
                               uint64_t seed, double patience_s, unsigned delay_us, int arithmetic, char* error, size_t error_size);

struct Header {
    uint64_t grid[3], threads, shared_bytes, cooperative, seed, delay_us, arithmetic, argument_bytes, relocations, buffers;
    double patience_s;
};

/// The pointer at `offset` of the argument is the address `buffer_offset` in the buffer.
struct Relocation {
    uint64_t offset, buffer, buffer_offset;
};

[[noreturn]] static void stop(const char* text) {
    fprintf(stderr, "%s\n", text);
    exit(3);
}

static void read_exactly(FILE* file, void* into, size_t size) {
    if (size && fread(into, size, 1, file) != 1) stop("the input file is too short");
}

int main(int count, char** arguments) {
    FILE* const input = count == 3 ? fopen(arguments[1], "rb") : nullptr;
    if (!input) stop("usage: program INPUT OUTPUT");
    Header header;
    read_exactly(input, &header, sizeof header);
    char* const argument = static_cast<char*>(malloc(header.argument_bytes));
    Relocation* const relocations = static_cast<Relocation*>(malloc(header.relocations * sizeof(Relocation)));
    char** const buffers = static_cast<char**>(malloc(header.buffers * sizeof(char*)));
    uint64_t* const sizes = static_cast<uint64_t*>(malloc(header.buffers * sizeof(uint64_t)));
    read_exactly(input, argument, header.argument_bytes);
    read_exactly(input, relocations, header.relocations * sizeof(Relocation));
    for (uint64_t i = 0; i < header.buffers; ++i) {
        read_exactly(input, &sizes[i], sizeof sizes[i]);
        buffers[i] = static_cast<char*>(malloc(sizes[i]));
        if (!buffers[i]) stop("no memory for a buffer");
        read_exactly(input, buffers[i], sizes[i]);
    }
    fclose(input);
    for (uint64_t i = 0; i < header.relocations; ++i) {
        char* const address = buffers[relocations[i].buffer] + relocations[i].buffer_offset;
        memcpy(argument + relocations[i].offset, &address, sizeof address);
    }

    const unsigned grid[3] = {unsigned(header.grid[0]), unsigned(header.grid[1]), unsigned(header.grid[2])};
    char error[1024] = "";
    if (cuda_on_cpu_run(grid, unsigned(header.threads), header.shared_bytes, argument, int(header.cooperative), header.seed,
                        header.patience_s, unsigned(header.delay_us), int(header.arithmetic), error, sizeof error))
        stop(error);

    FILE* const output = fopen(arguments[2], "wb");
    if (!output) stop("the output file cannot be opened");
    for (uint64_t i = 0; i < header.buffers; ++i)
        if (sizes[i] && fwrite(buffers[i], sizes[i], 1, output) != 1) stop("the output file cannot be written");
    if (fclose(output)) stop("the output file cannot be written");
    for (uint64_t i = 0; i < header.buffers; ++i) free(buffers[i]);
    free(sizes);
    free(buffers);
    free(relocations);
    free(argument);
    return 0;
}
