/*
 * Replay the golden vectors of an int8 model: compute every op from the arguments and the
 * constants, and compare each accumulator and each result with the trace.
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

static void *allocate(size_t elements) {
  void *data = calloc(elements + 1, sizeof(int32_t));
  if (data == NULL) stop("not enough memory", directory);
  return data;
}

/* Files of the trace */

static int32_t *load(const char *file, int elements, int bits, int is_signed) {
  char path[1024];
  snprintf(path, sizeof path, "%s/call_%03d/%s.hex", directory, call, file);
  FILE *stream = fopen(path, "r");
  if (stream == NULL) stop("cannot open", path);
  int32_t *data = allocate(elements);
  for (int i = 0; i < elements; i++) {
    int64_t word;
    if (fscanf(stream, "%" SCNx64, (uint64_t *)&word) != 1) stop("too short", path);
    if (is_signed && word >> (bits - 1) & 1) word -= (int64_t)1 << bits;
    data[i] = (int32_t)word;
  }
  fclose(stream);
  return data;
}

static void compare(const char *file, const int32_t *found, int elements, int bits,
                    int is_signed) {
  int32_t *expected = load(file, elements, bits, is_signed);
  for (int i = 0; i < elements; i++) {
    if (found[i] != expected[i] && wrong++ < 10)
      printf("call %d, %s[%d]: %d, expected %d\n", call, file, i, found[i], expected[i]);
  }
  compared += elements;
  free(expected);
}

static int32_t *constant(const xq_value *value) {
  int32_t *data = allocate(count(value));
  for (int i = 0; i < count(value); i++) {
    switch (value->is_signed ? value->bits : -value->bits) {
      case 8: data[i] = ((const int8_t *)value->data)[i]; break;
      case -8: data[i] = ((const uint8_t *)value->data)[i]; break;
      case 16: data[i] = ((const int16_t *)value->data)[i]; break;
      case 32: data[i] = ((const int32_t *)value->data)[i]; break;
      default: stop("unsupported constant", value->file);
    }
  }
  return data;
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

/* Return the stored values of accumulators, whose last dimension is that of channels. */
static int32_t *requantized(const xq_op *op, int32_t *sums, int elements, int channels) {
  const xq_step *scale = &op->steps[0], *store = &op->steps[1];
  if (op->step_count != 2 || strcmp(store->primitive, "stored_values"))
    stop("unsupported steps", op->name);
  compare(scale->accumulator, sums, elements, 32, 1);
  for (int i = 0; i < elements; i++) {
    int c = scale->count == 1 ? 0 : i % channels;
    int32_t value = scale->ratio != NULL
                        ? (int32_t)round(sums[i] * scale->ratio[c])
                        : rescaled(sums[i], scale->multiplier[c], scale->shift[c]);
    value += store->zero_point;
    sums[i] = value < store->low ? store->low : value > store->high ? store->high : value;
  }
  return sums;
}

/* Ops */

/* Return an attribute; the letter of a text, 'S' for the padding "SAME"; 0 if absent. */
static int attribute(const xq_op *op, const char *name) {
  for (int i = 0; i < op->attribute_count; i++) {
    const xq_attribute *found = &op->attributes[i];
    if (strcmp(found->name, name)) continue;
    return found->text != NULL ? found->text[0] : (int)found->number;
  }
  return 0;
}

/* Convolve; a fully connected layer is a convolution of images of 1x1 pixels. */
static int32_t *convolution(const xq_op *op, const xq_value **v, int32_t **x,
                            const xq_value *result, int is_depthwise) {
  int is_image = v[1]->rank == 4, outputs = result->sizes[result->rank - 1];
  int flat[][4] = {{count(result) / outputs, 1, 1, v[1]->sizes[1]},
                   {outputs, 1, 1, v[1]->sizes[1]},
                   {count(result) / outputs, 1, 1, outputs}};
  const int *in = is_image ? v[0]->sizes : flat[0], *w = is_image ? v[1]->sizes : flat[1];
  const int *out = is_image ? result->sizes : flat[2];
  int strides[] = {attribute(op, "stride_h"), attribute(op, "stride_w")}, before[2];
  int steps[] = {attribute(op, "dilation_h_factor"), attribute(op, "dilation_w_factor")};
  for (int d = 0; d < 2; d++) {
    int extent = (out[d + 1] - 1) * strides[d] + (w[d + 1] - 1) * steps[d] + 1;
    int padding = extent - in[d + 1];
    before[d] = attribute(op, "padding") == 'S' && padding > 0 ? padding / 2 : 0;
  }
  int32_t *sums = allocate(count(result));
  for (int i = 0; i < count(result); i++) {
    int o = i % outputs, depth = is_depthwise ? 1 : w[3];
    int z = i / outputs % out[2], y = i / outputs / out[2] % out[1];
    const int32_t *image = x[0] + i / outputs / out[2] / out[1] * in[1] * in[2] * in[3];
    /* The first channel of the group of this output. */
    int first = is_depthwise ? o * in[3] / outputs : o * in[3] / depth / outputs * depth;
    sums[i] = x[2] != NULL ? x[2][o] : 0;
    for (int k = 0; k < w[1] * w[2]; k++) {
      int row = y * strides[0] - before[0] + k / w[2] * steps[0];
      int column = z * strides[1] - before[1] + k % w[2] * steps[1];
      if (row < 0 || row >= in[1] || column < 0 || column >= in[2]) continue;
      for (int c = 0; c < depth; c++) {
        int weight = is_depthwise ? k * outputs + o : (o * w[1] * w[2] + k) * depth + c;
        sums[i] += (image[(row * in[2] + column) * in[3] + first + c] - v[0]->zero_point) *
                   (x[1][weight] - v[1]->zero_point);
      }
    }
  }
  return requantized(op, sums, count(result), outputs);
}

/* Copy `result` from `source`, starting at an index with a step in each dimension. */
static int32_t *slice(const xq_value *source, const int32_t *data, const xq_value *result,
                      const int *begin, const int32_t *step) {
  int32_t *copy = allocate(count(result));
  for (int i = 0; i < count(result); i++) {
    int rest = i, index = 0, pitch = 1;
    for (int d = source->rank - 1; d >= 0; d--) {
      index += (begin[d] + rest % result->sizes[d] * step[d]) * pitch;
      rest /= result->sizes[d];
      pitch *= source->sizes[d];
    }
    copy[i] = data[index];
  }
  return copy;
}

static int32_t *strided_slice(const xq_op *op, const xq_value **v, int32_t **x,
                              const xq_value *result) {
  int begin[8], mask = attribute(op, "begin_mask");
  if (result->rank != v[0]->rank) stop("unsupported masks", op->name);
  for (int d = 0; d < v[0]->rank; d++) {
    int size = v[0]->sizes[d], first = x[1][d] + (x[1][d] < 0 ? size : 0);
    if (mask >> d & 1) first = x[3][d] > 0 ? 0 : size - 1;
    begin[d] = first < 0 ? 0 : first;
  }
  return slice(v[0], x[0], result, begin, x[3]);
}

static int32_t *concatenation(const xq_op *op, const xq_value **v, int32_t **x,
                              const xq_value *result) {
  int axis = attribute(op, "axis"), inner = 1, filled = 0;
  if (axis < 0) axis += result->rank;
  for (int d = axis + 1; d < result->rank; d++) inner *= result->sizes[d];
  int32_t *whole = allocate(count(result));
  for (int k = 0; k < op->operand_count; k++) {
    int run = v[k]->sizes[axis] * inner, pitch = result->sizes[axis] * inner;
    for (int i = 0; i < count(v[k]); i++)
      whole[i / run * pitch + filled + i % run] = x[k][i];
    filled += run;
  }
  return whole;
}

static int32_t **variable(const char *name) {
  for (int i = 0; i < XQ_OPS; i++)
    if (xq_ops[i].variable != NULL && !strcmp(xq_ops[i].variable, name))
      return &variables[i];
  return NULL;
}

static int32_t *copy(const int32_t *data, int elements) {
  return memcpy(allocate(elements), data, elements * sizeof *data);
}

static int32_t *computed(const xq_op *op, const xq_value **v, int32_t **x, int r) {
  const char *name = op->name + strlen("tfl.");
  const xq_value *result = &xq_values[op->results[r]];
  if (!strcmp(name, "reshape")) return copy(x[0], count(result));
  if (!strcmp(name, "read_variable")) return copy(*variable(op->variable), count(result));
  if (!strcmp(name, "conv_2d")) return convolution(op, v, x, result, 0);
  if (!strcmp(name, "depthwise_conv_2d")) return convolution(op, v, x, result, 1);
  if (!strcmp(name, "fully_connected")) return convolution(op, v, x, result, 0);
  if (!strcmp(name, "concatenation")) return concatenation(op, v, x, result);
  if (!strcmp(name, "strided_slice")) return strided_slice(op, v, x, result);
  if (!strcmp(name, "split_v")) {
    int begin[8] = {0};
    int32_t step[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    int axis = x[2][0] + (x[2][0] < 0 ? v[0]->rank : 0);
    for (int k = 0; k < r; k++) begin[axis] += xq_values[op->results[k]].sizes[axis];
    return slice(v[0], x[0], result, begin, step);
  }
  if (!strcmp(name, "quantize")) {
    int32_t *corrected = copy(x[0], count(result));
    for (int i = 0; i < count(result); i++) corrected[i] -= v[0]->zero_point;
    return requantized(op, corrected, count(result), 1);
  }
  if (op->step_count == 1 && op->steps[0].table_bits == 8) {
    int32_t *found = copy(x[0], count(result));
    for (int i = 0; i < count(result); i++)
      found[i] = ((const int8_t *)op->steps[0].table)[found[i] + 128 * v[0]->is_signed];
    return found;
  }
  stop("unsupported op", op->name);
  return NULL;
}

static void run(const xq_op *op) {
  const xq_value *v[8] = {0};
  int32_t *x[8] = {0};
  for (int i = 0; i < op->operand_count && i < 8; i++) {
    if (op->operands[i] < 0) continue;
    v[i] = &xq_values[op->operands[i]];
    x[i] = values[op->operands[i]];
  }
  if (!strcmp(op->name, "tfl.assign_variable")) {
    free(*variable(op->variable));
    *variable(op->variable) = copy(x[1], count(v[1]));
  }
  for (int r = 0; r < op->result_count; r++) {
    const xq_value *result = &xq_values[op->results[r]];
    free(values[op->results[r]]);
    values[op->results[r]] = computed(op, v, x, r);
    compare(result->file, values[op->results[r]], count(result), result->bits,
            result->is_signed);
  }
}

int main(int argc, char **argv) {
  if (argc != 2) stop("usage", "replay DIR");
  directory = argv[1];
  for (int i = 0; i < XQ_VALUES; i++)
    if (xq_values[i].data != NULL) values[i] = constant(&xq_values[i]);
  for (call = 0; call < XQ_CALLS; call++) {
    for (int i = 0; i < XQ_ARGUMENTS; i++) {
      const xq_value *argument = &xq_values[xq_arguments[i]];
      free(values[xq_arguments[i]]);
      values[xq_arguments[i]] =
          load(argument->file, count(argument), argument->bits, argument->is_signed);
    }
    /* The first call runs the function that initializes variables. */
    for (int i = 0; i < XQ_OPS; i++)
      if (call == 0 && strcmp(xq_ops[i].function, XQ_FUNCTION)) run(&xq_ops[i]);
    for (int i = 0; i < XQ_OPS; i++)
      if (!strcmp(xq_ops[i].function, XQ_FUNCTION)) run(&xq_ops[i]);
  }
  printf("%d calls of %d ops: %ld of %ld values differ\n", XQ_CALLS, XQ_OPS, wrong,
         compared);
  return wrong != 0;
}
