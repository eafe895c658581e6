// What becomes of the focus when the control that had it is gone or disabled. A browser gives it to
// the whole document then, and a screen reader begins at the top.

// settle is the time, in milliseconds, after which a page has moved the focus itself, if it does.
const settle = 100

// keepFocus moves the focus from a control that is gone to the heading of the part of the page that
// it was in, and back to a control that was disabled and is not any more. A user who clicks elsewhere
// or leaves the control has it nowhere. It returns how to stop that.
export function keepFocus(): () => void {
  let around: Element[] = [] // the control that had the focus last, and the elements around it
  let disabled = false // it was, since it had the focus
  let timer = 0
  const note = (e: Event) => {
    around = []
    disabled = false
    for (let at = e.target as Element | null; at; at = at.parentElement) around.push(at)
  }
  const leave = (e: Event) => { if (!around[0]?.contains(e.target as Node)) around = [] }
  const move = () => {
    const [last] = around
    if (document.activeElement !== document.body || !last) return
    if (last.isConnected) {
      if (disabled && last instanceof HTMLElement && !last.matches(':disabled')) last.focus({ preventScroll: true })
      return
    }
    const part = around.find((one) => one.isConnected && one.querySelector('h1, h2'))
    part?.querySelector<HTMLElement>('h1[tabindex], h2[tabindex]')?.focus({ preventScroll: true })
  }
  const watch = new MutationObserver(() => {
    const [last] = around
    if (last?.matches(':disabled')) disabled = true
    if (document.activeElement !== document.body || !last || last.matches(':disabled')) return
    clearTimeout(timer)
    timer = setTimeout(move, settle)
  })
  document.addEventListener('focusin', note)
  document.addEventListener('pointerdown', leave)
  watch.observe(document.body, { subtree: true, childList: true, attributeFilter: ['disabled'] })
  return () => {
    document.removeEventListener('focusin', note)
    document.removeEventListener('pointerdown', leave)
    watch.disconnect()
    clearTimeout(timer)
  }
}
