#include "table.h"

#include <stdio.h>

void count(FILE *in);

int main(void)
{
	int n;
	count(stdin);
	struct word *w = all(&n);
	for (int i = 0; i < n; i++)
		printf("%d %s\n", w[i].seen, w[i].text);
	return 0;
}
