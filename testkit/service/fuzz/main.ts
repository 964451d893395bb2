import { fuzzService } from './fuzz-service.ts'

// node testkit/service/fuzz/main.ts [SEED [CALLS [FROM]]]
//   Sends calls to a new service, and prints the faults and the number of answers of each kind. A fault names its seed and
//   its call's number: `main.ts SEED 1 NUMBER` sends this call alone.

const [seed = 1, calls = 10_000, from = 0] = process.argv.slice(2).map(Number)
const { kinds, faults, problems, ...rest } = await fuzzService(seed, calls, { from })
for (const fault of faults) console.log(fault)
for (const line of problems.slice(0, 20)) console.log(line.slice(0, 1_000))
for (const [kind, count] of [...kinds].toSorted()) console.log(`${count}\t${kind}`)
console.log({ seed, ...rest, faults: faults.length, problems: problems.length })
process.exitCode = faults.length > 0 ? 1 : 0
