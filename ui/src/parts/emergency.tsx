// The emergency as the server answered last, and its banner, which is on every page.
import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { call, type Answer, type Schemas } from '../api'
import { attribute, duration, perUnit } from '../format'
import { useLoad } from '../load'
import { href } from '../router'
import { Store, useStore } from '../store'
import { Long, Time } from './basic'

export type State = Schemas['Emergency']

interface Known {
  state: State | undefined
  etag: string
  at: number // the time of the answer, in milliseconds
  error: Error | undefined
}

// known is what the banner has read last. The page shows the same.
export const known = new Store<Known>({ state: undefined, etag: '', at: 0, error: undefined })

// period is the time between two questions, in seconds.
const period = 5

// changes counts the switchings by this page: an answer to an earlier question is then out of date.
let changes = 0

// switched takes the answer to a switching by this page.
export function switched(answer: Answer<State>): void {
  changes++
  learn(answer)
}

function learn({ data, etag }: Answer<State>): void {
  known.set({ state: data, etag, at: Date.now(), error: undefined })
}

async function look(signal: AbortSignal): Promise<void> {
  const before = changes
  const answer = await call('get', '/v1/emergency', { signal })
  if (before === changes) learn(answer)
}

// EmergencyBanner follows the emergency, and shows it while it is on. While the server does not
// answer, the time that is left goes on by the clock of the browser.
export function EmergencyBanner() {
  const { state } = useStore(known)
  const { error } = useLoad(look, [], period)
  useEffect(() => known.set({ ...known.value, error }), [error])
  const { left, asOf } = useAge()
  if (!state?.on) return null
  if (asOf && left <= 0) {
    return (
      <div class="box warn" role="status" id="emergency">
        <strong>The emergency was to end at <Time at={state.until} />:</strong> {sentence(state.limit ?? '', state.by ?? '')}. {asOf} It may have been replaced or prolonged since. <a href={href(['emergency'])}>Look at it</a>
      </div>
    )
  }
  return (
    <div class="box bad" role="status" id="emergency">
      <strong>Emergency until <Time at={state.until} />:</strong> {sentence(state.limit ?? '', state.by ?? '')}. Switched on by {state.author}{state.reason && <>: <Long text={state.reason} /></>}. <Left ms={left} />{asOf} <a href={href(['emergency'])}>Look at it</a>
    </div>
  )
}

// Left is a timer, which a screen reader does not read out each second.
function Left({ ms }: { ms: number }) {
  if (ms <= 0) return null // the clock of the browser is ahead of that of the server
  return <span role="timer" aria-live="off">{capital(duration(ms))} left. </span>
}

// useAge returns the milliseconds until the emergency ends and, if the server has not answered
// lately, since when.
export function useAge(): { left: number; asOf: ComponentChildren } {
  const { state, at, error } = useStore(known)
  const [, tick] = useState(0)
  useEffect(() => {
    if (!state?.on) return undefined
    const timer = setInterval(() => tick((n) => n + 1), 1000)
    return () => clearInterval(timer)
  }, [state?.on])
  const now = Date.now()
  const late = error !== undefined || now - at > 3000 * period
  return {
    left: Date.parse(state?.until ?? '') - now,
    asOf: late && <>As of <Time at={new Date(at).toISOString()} />: the server has not answered since.</>,
  }
}

// sentence says a limit in words.
export function sentence(limit: string, by: string): string {
  return `each ${attribute(by)} may make ${perUnit(limit)}`
}

export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
