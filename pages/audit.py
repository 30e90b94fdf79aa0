from components.shell import shell
shell("Audit")
