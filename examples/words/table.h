/* A table of words and how often each was seen. */
struct word {
	char text[64];
	int seen;
};

struct word *find(const char *text);
struct word *all(int *n);
