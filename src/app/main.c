/* main.c - the entry of the executable; tests link everything but this file and call app_main themselves. */
#include "app/app.h"

int main(int argc, char **argv) { return app_main(argc, argv); }
