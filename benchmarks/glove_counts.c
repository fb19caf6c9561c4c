/* Counts which words stand near each other as GloVe's own program does (Pennington et al., 2014, and the notes of its first release):
   pairs of frequent words in an array, all others in runs of records that are sorted, written and merged.

   glove_counts VOCABULARY TEXT WINDOW GIGABYTES FOLDER > PAIRS

   VOCABULARY: a word a line, the most frequent first. Windows end at line ends; both sides count, 1 / distance. PAIRS: records of two
   int32, numbers of words from 1 on, and a double. The memory bounds array and runs, as there; 15 % are for the rest. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { int first, second; double value; } Pair;
typedef struct { Pair pair; int run; } Front;

static char **words;
static int *slots, num_slots, num_words;

static unsigned hash(const char *word) {
  unsigned value = 2166136261u;
  for (; *word; word++) value = (value ^ (unsigned char)*word) * 16777619u;
  return value;
}

static int find(const char *word) { /* the slot of a word, or the free one where it would stand */
  int slot = hash(word) & (num_slots - 1);
  while (slots[slot] && strcmp(words[slots[slot] - 1], word)) slot = (slot + 1) & (num_slots - 1);
  return slot;
}

static int compare(const void *a, const void *b) {
  const Pair *x = a, *y = b;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  return x->second < y->second ? -1 : x->second > y->second;
}

static FILE *open_run(const char *folder, int number, const char *mode) {
  char path[4096];
  snprintf(path, sizeof path, "%s/run.%d", folder, number);
  FILE *file = fopen(path, mode);
  if (!file) { perror(path); exit(1); }
  return file;
}

static void write_run(Pair *pairs, long count, const char *folder, int number) {
  FILE *file = open_run(folder, number, "wb");
  qsort(pairs, count, sizeof(Pair), compare);
  for (long i = 0; i < count;) {
    Pair sum = pairs[i++];
    while (i < count && !compare(&sum, &pairs[i])) sum.value += pairs[i++].value;
    fwrite(&sum, sizeof sum, 1, file);
  }
  fclose(file);
}

static void sink(Front *heap, int count, int place) {
  for (;;) {
    int least = place, child = 2 * place + 1;
    for (int c = child; c < child + 2 && c < count; c++)
      if (compare(&heap[c].pair, &heap[least].pair) < 0) least = c;
    if (least == place) return;
    Front held = heap[place]; heap[place] = heap[least]; heap[least] = held;
    place = least;
  }
}

static void merge(const char *folder, int runs) {
  FILE **files = malloc(runs * sizeof *files);
  Front *heap = malloc(runs * sizeof *heap);
  int count = 0;
  for (int r = 0; r < runs; r++) {
    files[r] = open_run(folder, r, "rb");
    heap[count].run = r;
    if (fread(&heap[count].pair, sizeof(Pair), 1, files[r]) == 1) count++;
  }
  for (int place = count / 2 - 1; place >= 0; place--) sink(heap, count, place);
  Pair sum = {0, 0, 0.0};
  while (count) {
    if (sum.first && !compare(&sum, &heap[0].pair)) sum.value += heap[0].pair.value;
    else {
      if (sum.first) fwrite(&sum, sizeof sum, 1, stdout);
      sum = heap[0].pair;
    }
    if (fread(&heap[0].pair, sizeof(Pair), 1, files[heap[0].run]) != 1) heap[0] = heap[--count];
    sink(heap, count, 0);
  }
  if (sum.first) fwrite(&sum, sizeof sum, 1, stdout);
}

int main(int argc, char **argv) {
  if (argc != 6) { fprintf(stderr, "VOCABULARY TEXT WINDOW GIGABYTES FOLDER > PAIRS\n"); return 2; }
  FILE *vocabulary = fopen(argv[1], "r"), *text = fopen(argv[2], "r");
  if (!vocabulary || !text) { perror("VOCABULARY or TEXT"); return 1; }
  static char word[1001];
  int window = atoi(argv[3]), room = 0;
  while (fscanf(vocabulary, "%1000s", word) == 1) {
    if (num_words == room) words = realloc(words, (room = 2 * room + 1024) * sizeof *words);
    words[num_words++] = strdup(word);
  }
  for (num_slots = 1024; num_slots < 4 * num_words;) num_slots *= 2;
  slots = calloc(num_slots, sizeof *slots);
  for (int w = 0; w < num_words; w++) slots[find(words[w])] = w + 1;

  /* Pairs whose numbers multiply to less than `most` are in the array: n (ln n + 0.154) of them (the notes of GloVe). */
  double places = 0.85 * atof(argv[4]) * 1073741824 / sizeof(Pair), most = 1e5;
  while (fabs(places - most * (log(most) + 0.1544313298)) > 1e-3) most = places / (log(most) + 0.1544313298);
  long limit = most, longest = places / 6, held = 0;
  long *begins = malloc((num_words + 1) * sizeof *begins);
  begins[0] = 0;
  for (int w = 1; w <= num_words; w++) begins[w] = begins[w - 1] + (limit / w < num_words ? limit / w : num_words);
  double *frequent = calloc(begins[num_words], sizeof *frequent);
  Pair *pairs = malloc((longest + 2 * window + 2) * sizeof *pairs);
  if (!frequent || !pairs) { fprintf(stderr, "no memory\n"); return 1; }
  int *history = malloc(window * sizeof *history), runs = 1, in_line = 0, length = 0, letter;
  do {
    letter = getc_unlocked(text);
    if (letter != ' ' && letter != '\n' && letter != EOF) { if (length < 1000) word[length++] = letter; continue; }
    if (length) {
      word[length] = 0;
      length = 0;
      int second = slots[find(word)];
      if (second) {
        for (int k = in_line - 1; k >= (in_line > window ? in_line - window : 0); k--) {
          int first = history[k % window];
          double value = 1.0 / (in_line - k);
          if (first < limit / second) {
            frequent[begins[first - 1] + second - 1] += value;
            frequent[begins[second - 1] + first - 1] += value;
          } else {
            pairs[held++] = (Pair){first, second, value};
            pairs[held++] = (Pair){second, first, value};
          }
        }
        history[in_line++ % window] = second;
        if (held >= longest) { write_run(pairs, held, argv[5], runs++); held = 0; }
      }
    }
    if (letter == '\n') in_line = 0;
  } while (letter != EOF);
  write_run(pairs, held, argv[5], runs++);
  FILE *file = open_run(argv[5], 0, "wb");
  for (int w = 1; w <= num_words; w++)
    for (long place = begins[w - 1]; place < begins[w]; place++)
      if (frequent[place] != 0) {
        Pair pair = {w, place - begins[w - 1] + 1, frequent[place]};
        fwrite(&pair, sizeof pair, 1, file);
      }
  fclose(file);
  merge(argv[5], runs);
  return 0;
}
