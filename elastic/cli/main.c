/* placeholder */
int main(void)
{
    return 64;
}
