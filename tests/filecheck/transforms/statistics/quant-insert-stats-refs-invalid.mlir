// RUN: xdsl-opt %s -p 'quant-insert-stats-refs{keys="("}' --verify-diagnostics | filecheck %s --check-prefix=KEYS
// RUN: xdsl-opt %s -p 'quant-insert-stats-refs{symbols=nope}' --verify-diagnostics | filecheck %s --check-prefix=SYMBOLS
// RUN: xdsl-opt %s -p 'quant-insert-stats-refs{ops="func.func","arith.addf"}' --verify-diagnostics | filecheck %s --check-prefix=OPS

// KEYS: invalid regular expression in keys: '(': missing ), unterminated subpattern at position 0
// SYMBOLS: unknown function 'nope' in symbols; available: 'f'
// OPS: unknown op 'arith.addf' in ops, it defines no float tensor in this module; available: 'func.func'
func.func @f(%x: tensor<2xf32>) {
  return
}
