// RUN: xdsl-opt %s -p 'quant-insert-stats-refs{keys="("}' --verify-diagnostics | filecheck %s --check-prefix=KEYS
// RUN: xdsl-opt %s -p 'quant-insert-stats-refs{symbols=nope}' --verify-diagnostics | filecheck %s --check-prefix=SYMBOLS

// KEYS: keys '(' is no regular expression: missing ), unterminated subpattern at position 0
// SYMBOLS: there is no function 'nope'
func.func @f(%x: tensor<2xf32>) {
  return
}
