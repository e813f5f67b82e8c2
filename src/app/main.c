/* main.c - finds the sub-command and runs it. */
#include <stdio.h>

int main(void)
{
    printf("inferflow %s\n", INFERFLOW_VERSION);
    return 0;
}
