import { useCallback, useEffect, useRef, useState } from 'preact/hooks'

export interface Loaded<T> {
  data: T | undefined
  error: Error | undefined
  loading: boolean
  reload: () => void
}

// useLoad runs read when a dependency changes, and every seconds if given, but not while it runs: a
// server that answers slowly would never be heard. A run for another dependency cancels the earlier
// one. Data stays while it is loaded anew or after a failure.
export function useLoad<T>(read: (signal: AbortSignal) => Promise<T>, deps: unknown[], every = 0): Loaded<T> {
  const [state, set] = useState<{ data?: T; error?: Error; loading: boolean }>({ loading: true })
  const [turn, setTurn] = useState(0)
  const busy = useRef(false)
  const latest = useRef(read)
  latest.current = read
  useEffect(() => set({ loading: true }), deps)
  useEffect(() => {
    const abort = new AbortController()
    set((old) => ({ ...old, loading: true }))
    busy.current = true
    const end = (next: (old: { data?: T }) => { data?: T; error?: Error; loading: boolean }) => {
      if (abort.signal.aborted) return
      busy.current = false
      set(next)
    }
    latest.current(abort.signal).then(
      (data) => end(() => ({ data, loading: false })),
      (error: Error) => end((old) => ({ ...old, error, loading: false })),
    )
    return () => abort.abort()
  }, [...deps, turn])
  useEffect(() => {
    if (!every) return undefined
    const timer = setInterval(() => document.hidden || busy.current || setTurn((n) => n + 1), every * 1000)
    return () => clearInterval(timer)
  }, [every])
  const reload = useCallback(() => setTurn((n) => n + 1), [])
  return { data: state.data, error: state.error, loading: state.loading, reload }
}
