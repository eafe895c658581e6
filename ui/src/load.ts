import { useCallback, useEffect, useRef, useState } from 'preact/hooks'

export interface Loaded<T> {
  data: T | undefined
  error: Error | undefined
  loading: boolean
  reload: () => void
}

// useLoad runs read when a dependency changes, and every seconds if given. A later run
// cancels an earlier one. Data stays while it is loaded anew or after a failure.
export function useLoad<T>(read: (signal: AbortSignal) => Promise<T>, deps: unknown[], every = 0): Loaded<T> {
  const [state, set] = useState<{ data?: T; error?: Error; loading: boolean }>({ loading: true })
  const [turn, setTurn] = useState(0)
  const latest = useRef(read)
  latest.current = read
  useEffect(() => set({ loading: true }), deps)
  useEffect(() => {
    const abort = new AbortController()
    set((old) => ({ ...old, loading: true }))
    latest.current(abort.signal).then(
      (data) => abort.signal.aborted || set({ data, loading: false }),
      (error: Error) => abort.signal.aborted || set((old) => ({ ...old, error, loading: false })),
    )
    return () => abort.abort()
  }, [...deps, turn])
  useEffect(() => {
    if (!every) return undefined
    const timer = setInterval(() => document.hidden || setTurn((n) => n + 1), every * 1000)
    return () => clearInterval(timer)
  }, [every])
  const reload = useCallback(() => setTurn((n) => n + 1), [])
  return { data: state.data, error: state.error, loading: state.loading, reload }
}
