import { href } from '../router'

// RuleLink links a rule to its page. Counts also have what is no rule of the set: the emergency, and
// names in parentheses for the limits that callers bring and for sums.
export function RuleLink({ id }: { id: string }) {
  if (id === 'emergency') return <a href={href(['emergency'])}>{id}</a>
  if (id.startsWith('(')) return <span class="quiet">{id}</span>
  return <a href={href(['rules', id])}>{id}</a>
}
