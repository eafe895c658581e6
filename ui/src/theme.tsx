import { storage } from './storage'
import { Store, useStore } from './store'

type Theme = 'system' | 'light' | 'dark'
const next: Record<Theme, Theme> = { system: 'light', light: 'dark', dark: 'system' }
const stored = 'stint-theme'

// theme is the choice of the user. Charts watch it, because they copy its colours.
export const theme = new Store<Theme>(read())
show(theme.value)

function read(): Theme {
  const value = storage()?.getItem(stored)
  return value === 'light' || value === 'dark' ? value : 'system'
}

function show(value: Theme): void {
  if (value === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = value
}

export function ThemeSwitch() {
  const value = useStore(theme)
  const change = () => {
    show(next[value])
    theme.set(next[value])
    try {
      storage()?.setItem(stored, next[value])
    } catch {
      // The storage is full of drafts: the choice is then not kept.
    }
  }
  return <button type="button" class="quiet theme" onClick={change} title="System, light, dark">Theme: {value}</button>
}
