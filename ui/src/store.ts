import { useEffect, useState } from 'preact/hooks'

// Store is a value that several components show.
export class Store<T> {
  private watchers = new Set<(value: T) => void>()

  constructor(private current: T) {}

  get value(): T {
    return this.current
  }

  set(value: T): void {
    this.current = value
    for (const watch of [...this.watchers]) watch(value)
  }

  watch(watcher: (value: T) => void): () => void {
    this.watchers.add(watcher)
    return () => void this.watchers.delete(watcher)
  }
}

export function useStore<T>(store: Store<T>): T {
  const [value, set] = useState(store.value)
  useEffect(() => {
    set(store.value)
    return store.watch(set)
  }, [store])
  return value
}
