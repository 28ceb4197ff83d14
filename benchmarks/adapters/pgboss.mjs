// pg-boss. Its work() asks at most twice a second, so the worker is a loop of its fetch() and complete().
import fs from 'node:fs'
import path from 'node:path'
import { createRequire } from 'node:module'
import { hit } from './counter.mjs'

const require = createRequire(path.join(process.cwd(), 'package.json'))

function versions () {
  const version = name => JSON.parse(fs.readFileSync(path.join('node_modules', name, 'package.json'))).version
  return { 'pg-boss': version('pg-boss'), pg: version('pg'), node: process.version }
}

async function boss () {
  const PgBoss = require('pg-boss')
  const one = new PgBoss({ ...JSON.parse(process.env.BENCH_PG), supervise: false, schedule: false })
  one.on('error', error => console.error(error))
  await one.start()
  await one.createQueue('bench')
  return one
}

async function enqueue (n, mode, kind) {
  const queue = await boss()
  const start = performance.now()
  if (mode === 'bulk') {
    for (let at = 0; at < n; at += 1000) {
      const size = Math.min(1000, n - at)
      await queue.insert(Array.from({ length: size }, (_, i) => ({ name: 'bench', data: { kind, x: at + i } })))
    }
  } else for (let i = 0; i < n; i++) await queue.send('bench', { kind, x: i })
  return (performance.now() - start) / 1000
}

async function worker (concurrency) {
  const queue = await boss()
  for (;;) {
    const jobs = await queue.fetch('bench', { batchSize: concurrency })
    if (jobs.length === 0) { await new Promise(resolve => setTimeout(resolve, 20)); continue }
    await Promise.all(jobs.map(async () => hit()))
    await queue.complete('bench', jobs.map(job => job.id))
  }
}

const [command, ...words] = process.argv.slice(2)
if (command === 'worker') await worker(Number(words[0]))
else {
  let answer = null
  if (command === 'versions') answer = versions()
  else if (command === 'setup') await (await boss()).stop()
  else answer = await enqueue(Number(words[0]), words[1], words[2])
  console.log('\n@@' + JSON.stringify(answer))
  process.exit(0)
}
