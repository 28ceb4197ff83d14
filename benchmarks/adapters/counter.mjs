// First start and number of finished jobs, as Counter in support.py; written every 5 ms.
import fs from 'node:fs'

let first = 0
let done = 0
let changed = false
if (process.env.BENCH_COUNTER) {
  const file = fs.openSync(process.env.BENCH_COUNTER, 'r+')
  setInterval(() => {
    if (!changed) return
    changed = false
    const bytes = Buffer.alloc(16)
    bytes.writeDoubleLE(first, 0)
    bytes.writeBigUInt64LE(BigInt(done), 8)
    fs.writeSync(file, bytes, 0, 16, 0)
  }, 5).unref()
}
export const begin = () => { if (!first) { first = Number(process.hrtime.bigint()) / 1e9; changed = true } }
export const hit = () => { begin(); done++; changed = true }
