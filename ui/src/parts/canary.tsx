// The state of the canary, and the banner of the page Now.
import { call, type Schemas } from '../api'
import { many, share } from '../format'
import { useLoad, type Loaded } from '../load'
import { href } from '../router'

type State = Schemas['Canary']
export type Counts = Schemas['CanaryCounts']

// Running is a canary that is on.
export type Running = Required<Omit<State, 'soak' | 'author' | 'comment' | 'rules_kept'>> & State

export function useCanary(): Loaded<State> {
  return useLoad(async (signal) => (await call('get', '/v1/canary', { signal })).data, [], 5)
}

export function running(state: State | undefined): Running | undefined {
  return state?.on ? (state as Running) : undefined
}

// CanaryBanner is on the page Now while a canary is on.
export function CanaryBanner() {
  const on = running(useCanary().data)
  if (!on) return null
  const { control, canary } = on.requests
  return (
    <div class="box warn" id="canary">
      <strong role="status">Version {on.version} is tried on {share(on.share)} of the callers.</strong>{' '}
      Denied: {share(deniedShare(canary))} of {many(canary.requests, 'request')} under the new rules, {share(deniedShare(control))} of {many(control.requests, 'request')} under the old ones.{' '}
      <a href={href(['canary'])}>Compare, promote or abort</a>
    </div>
  )
}

// decided is the number of requests that the rules allowed or denied.
export function decided(c: Counts): number {
  return Math.max(0, c.requests - c.errors)
}

export function deniedShare(c: Counts): number {
  return c.denied / (decided(c) || 1)
}
