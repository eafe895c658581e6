// The live view of the server: one stream for all parts of the page that show it.
import { useEffect } from 'preact/hooks'
import { callStream, type Schemas } from './api'
import { events, type Event } from './events'
import { Store, useStore } from './store'

export type Second = Schemas['LiveSecond']
export type Node = Schemas['Node']
export type Counts = Schemas['LiveCounts']
export type Point = Schemas['LivePoint']

export interface Live {
  // status is lost while the stream is interrupted: the page then tries again.
  status: 'opening' | 'live' | 'lost'
  why: string
  seconds: Second[] // the last 15 minutes, the oldest first
  nodes: Node[]
  nodesError: string
  points: Point[] // what the nodes counted together in the last 15 minutes, the oldest first
}

const most = 15 * 60
const live = new Store<Live>({ status: 'opening', why: '', seconds: [], nodes: [], nodesError: '', points: [] })
let users = 0
let stream: AbortController | null = null

// useLive opens the stream while a component uses it.
export function useLive(): Live {
  useEffect(() => {
    users++
    if (!stream) {
      stream = new AbortController()
      void follow(stream.signal)
    }
    return () => {
      if (--users > 0) return
      stream?.abort()
      stream = null
    }
  }, [])
  return useStore(live)
}

// A browser opens six connections to a server that speaks HTTP/1.1, and a server few streams: a page
// that nobody sees holds none. Its next stream begins after its last second.
async function follow(signal: AbortSignal): Promise<void> {
  let last = ''
  let seen = new AbortController() // aborted when the page is hidden, or when nothing uses the view
  const leave = () => (document.hidden || signal.aborted) && seen.abort()
  document.addEventListener('visibilitychange', leave, { signal })
  signal.addEventListener('abort', leave)
  live.set({ ...live.value, status: 'opening', seconds: [], points: [] })
  for (let pause = 500; !signal.aborted; pause = Math.min(2 * pause, 10_000)) {
    await shown(signal)
    if (signal.aborted) return
    seen = new AbortController()
    let why = 'the server ended it'
    try {
      const response = await callStream('get', '/v1/live', { accept: 'text/event-stream', lastEventID: last, signal: seen.signal })
      for await (const batch of events(response.body!)) {
        pause = 500
        last = take(batch) || last
      }
    } catch (error) {
      why = (error as Error).message
    }
    if (seen.signal.aborted) continue
    live.set({ ...live.value, status: 'lost', why })
    await new Promise((done) => setTimeout(done, pause))
  }
}

// shown waits until the page is shown, or the signal is aborted.
async function shown(signal: AbortSignal): Promise<void> {
  while (document.hidden && !signal.aborted) {
    await new Promise<void>((turn) => {
      const end = new AbortController()
      const told = () => {
        end.abort()
        turn()
      }
      document.addEventListener('visibilitychange', told, { signal: end.signal })
      signal.addEventListener('abort', told, { signal: end.signal })
    })
  }
}

// take adds events to the view, and returns the id of the last second.
function take(batch: Event[]): string {
  const next = { ...live.value, status: 'live' as const, why: '' }
  const fresh: Second[] = []
  let last = ''
  for (const event of batch) {
    if (event.name === 'second') {
      fresh.push(JSON.parse(event.data) as Second)
      last = event.id
    }
    if (event.name === 'nodes') {
      const body = JSON.parse(event.data) as Schemas['LiveNodes']
      next.nodes = body.nodes
      next.nodesError = body.error ?? ''
      if (body.points.length > 0) next.points = joined(next.points, body.points).filter((p) => p.time_ms > body.points.at(-1)!.time_ms - most * 1000)
    }
  }
  if (fresh.length > 0) next.seconds = joined(next.seconds, fresh).slice(-most)
  live.set(next)
  return last
}

// joined returns what was counted with the fresh counts after it, in ascending order as the chart
// needs it. A clock that was set back, or another server behind a proxy, sends earlier times: they
// take the place of those that are not before them.
function joined<T extends { time_ms: number }>(known: T[], fresh: T[]): T[] {
  const all = [...known]
  for (const one of fresh) {
    while (all.length > 0 && all[all.length - 1]!.time_ms >= one.time_ms) all.pop()
    all.push(one)
  }
  return all
}

// Rate is what a rule, or all of them, had a second.
export interface Rate {
  allowed: number
  denied: number
  shadow: number
  degraded: number
}

const none: Rate = { allowed: 0, denied: 0, shadow: 0, degraded: 0 }

export function countsOf(s: Second, rule: string): Rate {
  if (rule === '') return { allowed: s.allowed, denied: s.denied, shadow: s.shadow, degraded: s.degraded }
  const found = rule === others ? s.others : s.rules.find((r) => r.rule === rule)
  return { ...none, ...(found ?? {}) }
}

// others is the sum of the rules that a second does not list.
export const others = '(others)'

// rates returns the mean rates of each rule over the last seconds.
export function rates(seconds: Second[], last: number): Map<string, Rate> {
  const found = new Map<string, Rate>()
  const recent = seconds.slice(-last)
  const length = recent.reduce((sum, s) => sum + s.length_ms, 0) / 1000 || 1
  const add = (rule: string, counts: Counts) => {
    const rate = found.get(rule) ?? { ...none }
    for (const name of Object.keys(none) as (keyof Rate)[]) rate[name] += (counts[name] ?? 0) / length
    found.set(rule, rate)
  }
  for (const s of recent) {
    for (const r of s.rules) add(r.rule, r)
    if (s.others) add(others, s.others)
  }
  return found
}

// requestsOf returns the requests of a rule, each of which has one of the four counts.
export function requestsOf(r: Rate): number {
  return r.allowed + r.denied + r.shadow + r.degraded
}

// deniedShare returns the share of the requests of a rule that it denied.
export function deniedShare(r: Rate): number {
  return r.denied / (requestsOf(r) || 1)
}

// shadowShare returns the share of the requests of a rule that it would have denied but for its mode.
export function shadowShare(r: Rate): number {
  return r.shadow / (requestsOf(r) || 1)
}
