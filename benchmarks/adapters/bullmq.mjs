// BullMQ on Node with its defaults. The same commands as support.py; run in the folder with node_modules.
import fs from 'node:fs'
import path from 'node:path'
import { createRequire } from 'node:module'
import { begin, hit } from './counter.mjs'

const require = createRequire(path.join(process.cwd(), 'package.json'))
const { Queue, Worker, QueueEvents } = require('bullmq')
const Redis = require('ioredis').default ?? require('ioredis')
const connection = () => new Redis(process.env.BENCH_REDIS_URL, { maxRetriesPerRequest: null })

function versions () {
  const version = name => JSON.parse(fs.readFileSync(path.join('node_modules', name, 'package.json'))).version
  return { bullmq: version('bullmq'), ioredis: version('ioredis'), node: process.version }
}

async function enqueue (n, mode, kind) {
  const queue = new Queue('q', { connection: connection() })
  await queue.waitUntilReady()
  const start = performance.now()
  if (mode === 'bulk') {
    for (let at = 0; at < n; at += 1000) {
      const size = Math.min(1000, n - at)
      await queue.addBulk(Array.from({ length: size }, (_, i) => ({ name: kind, data: { x: at + i } })))
    }
  } else for (let i = 0; i < n; i++) await queue.add(kind, { x: i })
  return (performance.now() - start) / 1000
}

function worker (concurrency) {
  const handler = async job => {
    if (job.name === 'sleep') { begin(); await new Promise(resolve => setTimeout(resolve, 10)) }
    hit()
    return job.data.x
  }
  return new Worker('q', handler, { connection: connection(), concurrency })
}

async function latency (n) {
  const queue = new Queue('q', { connection: connection() })
  const events = new QueueEvents('q', { connection: connection() })
  await events.waitUntilReady()
  const times = []
  for (let i = -5; i < n; i++) {
    const start = performance.now()
    const job = await queue.add('noop', { x: i })
    await job.waitUntilFinished(events, 10000)
    if (i >= 0) times.push(performance.now() - start)
  }
  return times
}

const [command, ...words] = process.argv.slice(2)
if (command === 'worker') worker(Number(words[0]))
else {
  const answer = command === 'versions' ? versions()
    : command === 'enqueue' ? await enqueue(Number(words[0]), words[1], words[2])
      : await latency(Number(words[0]))
  console.log('\n@@' + JSON.stringify(answer))
  process.exit(0)
}
