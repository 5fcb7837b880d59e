#include "table.h"

#include <stdio.h>

void count(FILE *in)
{
	char text[64];
	while (fscanf(in, "%63s", text) == 1) {
		struct word *w = find(text);
		if (w)
			w->seen++;
	}
}
