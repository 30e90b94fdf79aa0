from components.shell import shell
shell("Compare")
