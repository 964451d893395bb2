export function Mark({ size = 18 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="7" fill="#14213d" />
      <path d="M6.5 24h3.2V12.5H6.5zM12.4 24h3.2v-7.2h-3.2zM18.3 24h3.2V8h-3.2z" fill="#8ab0ff" />
      <circle cx="25.2" cy="9.6" r="2.3" fill="#f0a83a" />
    </svg>
  )
}
