#include "table.h"

#include <stdio.h>
#include <string.h>

static struct word words[1000];
static int used;

struct word *find(const char *text)
{
	for (int i = 0; i < used; i++)
		if (strcmp(words[i].text, text) == 0)
			return &words[i];
	if (used == 1000)
		return 0;
	snprintf(words[used].text, sizeof words[used].text, "%s", text);
	return &words[used++];
}

struct word *all(int *n)
{
	*n = used;
	return words;
}
