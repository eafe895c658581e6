// The storage of the browser, or undefined if the browser refuses it: the pages then work, and keep
// nothing.
export function storage(): Storage | undefined {
  try {
    return localStorage
  } catch {
    return undefined
  }
}
