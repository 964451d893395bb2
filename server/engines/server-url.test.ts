import { describe, expect, test } from 'vitest'
import { checkServerUrl } from './server-url.ts'

describe('checkServerUrl', () => {
  test.each([
    ['http://127.0.0.1:8000', 'http://127.0.0.1:8000', ''],
    ['http://localhost:8000/', 'http://localhost:8000', ''],
    ['http://10.0.0.7:30000/rm/', 'http://10.0.0.7:30000/rm', '/rm'],
    ['https://rm.example.com/v1', 'https://rm.example.com/v1', '/v1'],
    ['http://[::1]:8000', 'http://[::1]:8000', ''],
    ['http://192.168.1.2', 'http://192.168.1.2', ''],
    ['HTTP://RM.Example.com:80/', 'http://rm.example.com', ''],
  ])('accepts %s', (text, url, basePath) => {
    expect(checkServerUrl(text)).toMatchObject({ ok: true, url, basePath })
  })

  test.each([
    ['', 'malformed'],
    ['rm.example.com', 'malformed'],
    ['localhost:8000', 'scheme'],
    ['http://', 'malformed'],
    ['http://[fe80::1%25eth0]/', 'malformed'],
    ['http://rm/?token=x', 'malformed'],
    ['http://rm/#x', 'malformed'],
    ['file:///etc/passwd', 'scheme'],
    ['ftp://rm/', 'scheme'],
    ['gopher://rm/', 'scheme'],
    ['unix:///run/rm.sock', 'scheme'],
    ['data:text/plain,1', 'scheme'],
    ['javascript:1', 'scheme'],
    ['http://user:secret@rm/', 'credentials'],
    ['http://user@rm/', 'credentials'],
    ['http://169.254.169.254/', 'forbidden_address'],
    ['http://169.254.0.1:8000/', 'forbidden_address'],
    ['http://169.254.169.254./', 'forbidden_address'],
    ['http://2852039166/', 'forbidden_address'],
    ['http://0xa9fea9fe/', 'forbidden_address'],
    ['http://0251.0376.0251.0376/', 'forbidden_address'],
    ['http://0xa9.254.43518/', 'forbidden_address'],
    ['http://169.254.43518/', 'forbidden_address'],
    ['http://[::ffff:169.254.169.254]/', 'forbidden_address'],
    ['http://[::ffff:a9fe:a9fe]/', 'forbidden_address'],
    ['http://[64:ff9b::169.254.169.254]/', 'forbidden_address'],
    ['http://[2002:a9fe:a9fe::]/', 'forbidden_address'],
    ['http://[fe80::1]/', 'forbidden_address'],
    ['http://[febf::1]:8000/', 'forbidden_address'],
    ['http://[fd00:ec2::254]/', 'forbidden_address'],
    ['http://168.63.129.16/', 'forbidden_address'],
    ['http://100.100.100.200/', 'forbidden_address'],
    ['http://metadata.google.internal/', 'forbidden_address'],
    ['http://METADATA.google.internal./', 'forbidden_address'],
    ['http://metadata/', 'forbidden_address'],
    ['http://１６９.254.169.254/', 'forbidden_address'],
  ])('refuses %s (%s)', (text, cause) => {
    expect(checkServerUrl(text)).toMatchObject({ ok: false, reason: 'forbidden_url', cause })
  })
})
