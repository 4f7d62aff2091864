/* A program that is linked with two MPIs, by mistake. */
int main(void)
{
    return 0;
}
