/* embed_files.c - build tool: writes an assembler file that puts files into the executable's read-only data, with a
 * table.
 *
 *     embed OUT.S FILE...
 *
 * .incbin copies bytes in no time (a C array of 8 MB costs the compiler 13 s and 1 GB). Each file starts at a multiple
 * of 64, so a model inside the executable can be used where it lies. The table (see src/base/embed.h) holds name, start
 * and size. */
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    if (argc < 2) return fprintf(stderr, "usage: embed OUT.S FILE...\n"), 2;
    FILE *f = fopen(argv[1], "w");
    if (!f) return perror(argv[1]), 1;
    fprintf(f, "#ifdef __CET__\n#include <cet.h>\n#endif\n    .section .rodata\n");
    for (int i = 2; i < argc; i++) {
        const char *slash = strrchr(argv[i], '/');
        fprintf(f, "    .balign 64\ndata_%d:\n    .incbin \"%s\"\nend_%d:\n    .byte 0\n", i, argv[i], i);
        fprintf(f, "name_%d:\n    .asciz \"%s\"\n", i, slash ? slash + 1 : argv[i]);
    }
    fprintf(f, "    .section .data.rel.ro, \"aw\"\n    .balign 8\n    .global embedded_files\nembedded_files:\n");
    for (int i = 2; i < argc; i++) fprintf(f, "    .quad name_%d, data_%d, end_%d - data_%d\n", i, i, i, i);
    fprintf(f, "    .quad 0, 0, 0\n    .section .note.GNU-stack, \"\", %%progbits\n");
    return fclose(f) != 0;
}
