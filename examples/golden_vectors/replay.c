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
static int32_t *variables[XQ_OPS]; /* by the first op that names the variable */
static const char *directory;
static int call;
static long compared, wrong;

static void stop(const char *problem, const char *subject) {
  fprintf(stderr, "replay: %s: %s\n", problem, subject);
  exit(2);
}

static int count(const xq_value *value) {
  int product = 1;
  for (int d = 0; d < value->rank; d++) product *= value->sizes[d];
  return product;
}

static int32_t *allocate(size_t elements) {
  int32_t *data = calloc(elements + 1, sizeof(int32_t));
  if (data == NULL) stop("not enough memory", directory);
  return data;
}

/* Files of the trace */

static void load(const char *file, int32_t *data, int elements, int bits, int is_signed) {
  char path[1024];
  snprintf(path, sizeof path, "%s/call_%03d/%s.hex", directory, call, file);
  FILE *stream = fopen(path, "r");
  if (stream == NULL) stop("cannot open", path);
  for (int i = 0; i < elements; i++) {
    int64_t word;
    if (fscanf(stream, "%" SCNx64, (uint64_t *)&word) != 1) stop("too short", path);
    if (is_signed && word >> (bits - 1) & 1) word -= (int64_t)1 << bits;
    data[i] = (int32_t)word;
  }
  fclose(stream);
}

static void compare(const char *file, const int32_t *found, int elements, int bits,
                    int is_signed) {
  int32_t *expected = allocate(elements);
  load(file, expected, elements, bits, is_signed);
  for (int i = 0; i < elements; i++) {
    if (found[i] != expected[i] && wrong++ < 10)
      printf("call %d, %s[%d]: %d, expected %d\n", call, file, i, found[i], expected[i]);
  }
  compared += elements;
  free(expected);
}

/* Fixed-point arithmetic */

static int32_t rescaled(int32_t value, int32_t multiplier, int shift) {
  int32_t shifted = (int32_t)((uint32_t)value << (shift > 0 ? shift : 0));
  int64_t product = ((int64_t)shifted * multiplier + (1 << 30)) >> 31;
  if (product > INT32_MAX) product = INT32_MAX;
  int right = shift < 0 ? -shift : 0;
  int64_t half = ((int64_t)1 << right) >> 1;
  return (int32_t)((product + half - (product < 0 && right > 0)) >> right);
}

/* Replace accumulators, whose last dimension is that of channels, by stored values. */
static void requantize(const xq_op *op, int32_t *sums, int elements, int channels) {
  const xq_step *scale = &op->steps[0], *store = &op->steps[1];
  compare(scale->accumulator, sums, elements, 32, 1);
  for (int i = 0; i < elements; i++) {
    int c = scale->count == 1 ? 0 : i % channels;
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

static const int32_t *elements(const xq_op *op, int i) { return values[op->operands[i]]; }

/* Convolve without padding; a fully connected layer has images of 1x1 pixels. */
static void convolve(const xq_op *op, const xq_value *result, int32_t *sums,
                     int is_depthwise) {
  const int32_t *x = elements(op, 0), *weights = elements(op, 1);
  const int *w = operand(op, 1)->sizes, *in = operand(op, 0)->sizes, *out = result->sizes;
  int is_image = operand(op, 1)->rank == 4, outputs = out[result->rank - 1];
  int height = is_image ? w[1] : 1, width = is_image ? w[2] : 1;
  int depth = is_depthwise ? 1 : w[is_image ? 3 : 1];
  for (int i = 0; i < count(result); i++) {
    int o = i % outputs, z = i / outputs, first = is_depthwise ? o : 0;
    sums[i] = op->operands[2] < 0 ? 0 : elements(op, 2)[o];
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
  requantize(op, sums, count(result), outputs);
}

/* Copy a part of an operand to a part of a result, which begin at indices of an axis. */
static void copy(const xq_op *op, int number, int first, const xq_value *result, int32_t *y,
                 int begin, int axis) {
  const xq_value *from = operand(op, number);
  int inner = 1;
  for (int d = axis + 1; d < result->rank; d++) inner *= result->sizes[d];
  int row = from->sizes[axis] * inner, result_row = result->sizes[axis] * inner;
  int size = row < result_row ? row : result_row;
  for (int i = 0; i < count(from) / row; i++)
    memcpy(y + i * result_row + begin * inner,
           elements(op, number) + i * row + first * inner, size * sizeof *y);
}

static void concatenate(const xq_op *op, const xq_value *result, int32_t *y) {
  int axis = attribute(op, "axis"), begin = 0;
  if (axis < 0) axis += result->rank;
  for (int k = 0; k < op->operand_count; begin += operand(op, k++)->sizes[axis])
    copy(op, k, 0, result, y, begin, axis);
}

/* Copy result number r of a slice or a split, which differs in one dimension. */
static void slice(const xq_op *op, const xq_value *result, int32_t *y, int r) {
  const xq_value *x = operand(op, 0);
  int axis = 0, first = 0;
  while (axis < x->rank - 1 && x->sizes[axis] == result->sizes[axis]) axis++;
  if (!strcmp(op->name, "tfl.split_v")) {
    for (int k = 0; k < r; k++) first += xq_values[op->results[k]].sizes[axis];
  } else if (!(attribute(op, "begin_mask") >> axis & 1)) {
    first = elements(op, 1)[axis];
    if (first < 0) first += x->sizes[axis];
  }
  copy(op, 0, first, result, y, 0, axis);
}

static int32_t *variable(const char *name, const xq_value *type) {
  int i = 0;
  while (xq_ops[i].variable == NULL || strcmp(xq_ops[i].variable, name)) i++;
  if (variables[i] == NULL) variables[i] = allocate(count(type));
  return variables[i];
}

static void compute(const xq_op *op, const xq_value *result, int32_t *y, int r) {
  const char *name = op->name + strlen("tfl.");
  int size = count(result);
  if (!strcmp(name, "conv_2d") || !strcmp(name, "fully_connected")) {
    convolve(op, result, y, 0);
  } else if (!strcmp(name, "depthwise_conv_2d")) {
    convolve(op, result, y, 1);
  } else if (!strcmp(name, "concatenation")) {
    concatenate(op, result, y);
  } else if (!strcmp(name, "strided_slice") || !strcmp(name, "split_v")) {
    slice(op, result, y, r);
  } else if (!strcmp(name, "read_variable")) {
    memcpy(y, variable(op->variable, result), size * sizeof *y);
  } else if (!strcmp(name, "reshape")) {
    memcpy(y, elements(op, 0), size * sizeof *y);
  } else if (!strcmp(name, "quantize")) {
    for (int i = 0; i < size; i++) y[i] = elements(op, 0)[i] - operand(op, 0)->zero_point;
    requantize(op, y, size, 1);
  } else if (op->step_count == 1 && op->steps[0].table_bits == 8) {
    const int8_t *table = op->steps[0].table;
    for (int i = 0; i < size; i++) y[i] = table[elements(op, 0)[i] + 128];
  } else {
    stop("unsupported op", op->name);
  }
}

/* Run the ops of the model, or those of other functions, which initialize variables. */
static void run(int is_model) {
  for (const xq_op *op = xq_ops; op < xq_ops + XQ_OPS; op++) {
    if (is_model != !strcmp(op->function, XQ_FUNCTION)) continue;
    if (!strcmp(op->name, "tfl.assign_variable"))
      memcpy(variable(op->variable, operand(op, 1)), elements(op, 1),
             count(operand(op, 1)) * sizeof(int32_t));
    for (int r = 0; r < op->result_count; r++) {
      const xq_value *result = &xq_values[op->results[r]];
      int32_t *y = values[op->results[r]];
      compute(op, result, y, r);
      compare(result->file, y, count(result), result->bits, result->is_signed);
    }
  }
}

int main(int argc, char **argv) {
  if (argc != 2) stop("usage", "replay DIR");
  directory = argv[1];
  for (int i = 0; i < XQ_VALUES; i++) {
    const int8_t *bytes = xq_values[i].data; /* weights */
    const int32_t *words = xq_values[i].data;
    values[i] = allocate(count(&xq_values[i]));
    for (int k = 0; bytes != NULL && k < count(&xq_values[i]); k++)
      values[i][k] = xq_values[i].bits == 8 ? bytes[k] : words[k];
  }
  for (call = 0; call < XQ_CALLS; call++) {
    for (int i = 0; i < XQ_ARGUMENTS; i++) {
      const xq_value *x = &xq_values[xq_arguments[i]];
      load(x->file, values[xq_arguments[i]], count(x), x->bits, x->is_signed);
    }
    if (call == 0) run(0);
    run(1);
  }
  printf("%d calls of %d ops: %ld of %ld values differ\n", XQ_CALLS, XQ_OPS, wrong,
         compared);
  return wrong != 0;
}
