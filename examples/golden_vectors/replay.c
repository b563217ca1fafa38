/*
 * Replay the golden vectors of a wake-word model: compute every op from the arguments and
 * the constants, and compare each accumulator and each result with the trace.
 *
 *   xdsl-quant run model.tflite --input x.npy --steps --trace trace --c-header model.h
 *   cc -O2 -include model.h replay.c -lm -o replay
 *   ./replay trace
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int32_t *values[XQ_VALUES]; /* elements of each value in this call */
static const char *directory;
static int call;
static long compared, wrong;

static void stop(const char *problem, const char *subject) {
  fprintf(stderr, "replay: %s: %s\n", problem, subject);
  exit(2);
}

/* Return the number of elements of the dimensions from `first` on. */
static int count(const xq_value *value, int first) {
  int product = 1;
  for (int d = first; d < value->rank; d++) product *= value->sizes[d];
  return product;
}

/* Read elements from the trace, or compare computed ones with the trace. */
static void read_trace(const xq_value *value, int32_t *data, int is_computed) {
  char path[1024];
  snprintf(path, sizeof path, "%s/call_%03d/%s.hex", directory, call, value->file);
  FILE *stream = fopen(path, "r");
  if (stream == NULL) stop("cannot open", path);
  for (int i = 0; i < count(value, 0); i++) {
    int64_t word;
    if (fscanf(stream, "%" SCNx64, (uint64_t *)&word) != 1) stop("too short", path);
    if (value->is_signed && word >> (value->bits - 1)) word -= (int64_t)1 << value->bits;
    if (!is_computed) data[i] = (int32_t)word;
    if (data[i] != word && wrong++ < 10)
      printf("%s[%d]: %d, expected %" PRId64 "\n", path, i, data[i], word);
  }
  compared += is_computed ? count(value, 0) : 0;
  fclose(stream);
}

/* Fixed-point arithmetic */

static int32_t rescaled(int32_t value, int32_t multiplier, int shift) {
  int32_t shifted = shift > 0 ? (int32_t)((uint32_t)value << shift) : value;
  int64_t product = ((int64_t)shifted * multiplier + (1 << 30)) >> 31;
  if (shift >= 0) return (int32_t)product;
  int64_t half = (int64_t)1 << (-shift - 1);
  return (int32_t)((product + half - (product < 0)) >> -shift);
}

/* Replace accumulators, whose last dimension is that of channels, by stored values. */
static void requantize(const xq_op *op, int32_t *sums) {
  const xq_step *scale = &op->steps[0], *store = &op->steps[1];
  if (op->step_count != 2) stop("unsupported steps", op->name);
  const xq_value *accumulator = &xq_values[scale->accumulator];
  read_trace(accumulator, sums, 1);
  for (int i = 0; i < count(accumulator, 0); i++) {
    int c = i % scale->count;
    int32_t value = scale->ratio != NULL
                        ? (int32_t)round(sums[i] * scale->ratio[c])
                        : rescaled(sums[i], scale->multiplier[c], scale->shift[c]);
    value += store->zero_point;
    sums[i] = value < store->low ? store->low : value > store->high ? store->high : value;
  }
}

/* Ops */

static int attribute(const xq_op *op, const char *name) {
  for (int i = 0; i < op->attribute_count; i++)
    if (!strcmp(op->attributes[i].name, name)) return (int)op->attributes[i].number;
  return 0;
}

static const xq_value *operand(const xq_op *op, int i) {
  return &xq_values[op->operands[i]];
}

/* Convolve without padding; a fully connected layer has images of 1x1 pixels. */
static void convolve(const xq_op *op, const xq_value *result, int32_t *sums) {
  const int32_t *x = values[op->operands[0]], *weights = values[op->operands[1]];
  const int *in = operand(op, 0)->sizes, *w = operand(op, 1)->sizes, *out = result->sizes;
  int is_depthwise = !strcmp(op->name, "tfl.depthwise_conv_2d");
  int is_image = operand(op, 1)->rank == 4, outputs = out[result->rank - 1];
  int height = is_image ? w[1] : 1, width = is_image ? w[2] : 1;
  int depth = is_depthwise ? 1 : w[is_image ? 3 : 1];
  for (int i = 0; i < count(result, 0); i++) {
    int o = i % outputs, z = i / outputs, first = 0;
    sums[i] = op->operands[2] < 0 ? 0 : values[op->operands[2]][o];
    for (int k = 0; k < height * width; k++) {
      if (is_image) {
        int row = z / out[2] * attribute(op, "stride_h") + k / width;
        int column = z % out[2] * attribute(op, "stride_w") + k % width;
        if (row >= in[1] || column >= in[2]) stop("unsupported padding", op->name);
        first = (row * in[2] + column) * in[3] + (is_depthwise ? o : 0);
      }
      for (int c = 0; c < depth; c++) {
        int weight = is_depthwise ? k * outputs + o : (o * height * width + k) * depth + c;
        sums[i] += (x[first + c] - operand(op, 0)->zero_point) * weights[weight];
      }
    }
  }
  requantize(op, sums);
}

static void concatenate(const xq_op *op, const xq_value *result, int32_t *y) {
  int axis = attribute(op, "axis") + (attribute(op, "axis") < 0 ? result->rank : 0);
  for (int k = 0; k < op->operand_count; k++) {
    int part = count(operand(op, k), axis);
    for (int i = 0; i < count(operand(op, k), 0); i++)
      y[i / part * count(result, axis) + i % part] = values[op->operands[k]][i];
    y += part;
  }
}

/* Copy result number r of a slice or a split, which differs in one dimension. */
static void slice(const xq_op *op, const xq_value *result, int32_t *y, int r) {
  const xq_value *x = operand(op, 0);
  int axis = 0, first = 0;
  while (axis < x->rank - 1 && x->sizes[axis] == result->sizes[axis]) axis++;
  if (!strcmp(op->name, "tfl.split_v")) {
    for (int k = 0; k < r; k++) first += xq_values[op->results[k]].sizes[axis];
  } else if (!(attribute(op, "begin_mask") >> axis & 1)) {
    first = (values[op->operands[1]][axis] + x->sizes[axis]) % x->sizes[axis];
  }
  const int32_t *from = values[op->operands[0]] + first * count(x, axis + 1);
  int part = count(result, axis);
  for (int i = 0; i < count(result, 0); i++)
    y[i] = from[i / part * count(x, axis) + i % part];
}

static void compute(const xq_op *op, const xq_value *result, int32_t *y, int r) {
  const char *name = op->name + strlen("tfl.");
  const int32_t *x = values[op->operands[0]];
  int size = count(result, 0);
  if (!strcmp(name, "reshape") || !strcmp(name, "read_variable")) {
    memcpy(y, x, size * sizeof *y);
  } else if (!strcmp(name, "concatenation")) {
    concatenate(op, result, y);
  } else if (!strcmp(name, "strided_slice") || !strcmp(name, "split_v")) {
    slice(op, result, y, r);
  } else if (!strcmp(name, "quantize")) {
    for (int i = 0; i < size; i++) y[i] = x[i] - operand(op, 0)->zero_point;
    requantize(op, y);
  } else if (op->step_count == 1 && op->steps[0].table_bits == 8) {
    const int8_t *table = op->steps[0].table;
    for (int i = 0; i < size; i++) y[i] = table[x[i] + 128];
  } else if (!strcmp(name, "fully_connected") || strstr(name, "conv_2d")) {
    convolve(op, result, y);
  } else {
    stop("unsupported op", op->name);
  }
}

/* Run the ops of the model, or those of other functions, which initialize variables. */
static void run(int is_model) {
  for (const xq_op *op = xq_ops; op < xq_ops + XQ_OPS; op++) {
    if (is_model != !strcmp(op->function, XQ_FUNCTION)) continue;
    if (!strcmp(op->name, "tfl.assign_variable"))
      memcpy(values[op->operands[0]], values[op->operands[1]],
             count(operand(op, 1), 0) * sizeof(int32_t));
    for (int r = 0; r < op->result_count; r++) {
      compute(op, &xq_values[op->results[r]], values[op->results[r]], r);
      read_trace(&xq_values[op->results[r]], values[op->results[r]], 1);
    }
  }
}

int main(int argc, char **argv) {
  if (argc != 2) stop("usage", "replay DIR");
  directory = argv[1];
  for (int i = 0; i < XQ_VALUES; i++) {
    const int8_t *bytes = xq_values[i].data; /* weights */
    const int32_t *words = xq_values[i].data;
    int size = count(&xq_values[i], 0);
    values[i] = calloc(size + 1, sizeof(int32_t));
    if (values[i] == NULL) stop("not enough memory", directory);
    for (int k = 0; bytes != NULL && k < size; k++)
      values[i][k] = xq_values[i].bits == 8 ? bytes[k] : words[k];
  }
  for (call = 0; call < XQ_CALLS; call++) {
    for (int i = 0; i < XQ_ARGUMENTS; i++)
      read_trace(&xq_values[xq_arguments[i]], values[xq_arguments[i]], 0);
    if (call == 0) run(0);
    run(1);
  }
  printf("%d calls of %d ops: %ld of %ld values differ\n", XQ_CALLS, XQ_OPS, wrong,
         compared);
  return wrong != 0;
}
